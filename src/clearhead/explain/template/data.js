// The numbers: decoded when they are first needed.
const data = JSON.parse(document.getElementById("data").textContent);
const STEP = 10000, FAINTEST = 0.01, MOST_LINES = 5000;

function bytes(text) {
  const raw = atob(text), made = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) made[i] = raw.charCodeAt(i);
  return made.buffer;
}

function decoded(layer) {
  if (!layer.ready) {
    layer.ready = { probs: new Uint16Array(bytes(layer.probs)) };
    if (layer.q) {
      layer.ready.q = new Int16Array(bytes(layer.q.values));
      layer.ready.k = new Int16Array(bytes(layer.k.values));
      layer.ready.scores = new Float32Array(bytes(layer.scores));
    }
  }
  return layer.ready;
}

const start = data.parts.find((part) => part.part === data.start.part);
const state = {
  part: start, layer: data.start.layer, heads: new Set(), focus: data.start.focus,
  word: null, pieces: [], key: null,
  view: data.start.view || "lines", hide: data.start.hide, again: false,
};
const allHeads = () => [...Array(state.part.layers[state.layer].heads).keys()];
state.heads = new Set(data.start.head === null ? allHeads() : [data.start.head]);

const shownTokens = (tokens) => {
  const places = [...tokens.keys()], shown = places.filter((i) => !(state.hide && tokens[i].special));
  return shown.length ? shown : places;
};
const activeHeads = () => allHeads().filter((head) => state.heads.has(head));

// One row of probabilities: as the model has them, or over what is shown if asked.
function row(part, layer, head, query) {
  const probs = decoded(part.layers[layer]).probs, count = part.keys.length;
  const at = (head * part.queries.length + query) * count, made = new Float64Array(count);
  for (let key = 0; key < count; key++) made[key] = probs[at + key] / STEP;
  if (state.hide && state.again) {
    let sum = 0;
    for (let key = 0; key < count; key++) if (!part.keys[key].special) sum += made[key];
    if (sum > 0) for (let key = 0; key < count; key++) made[key] /= sum;
  }
  return made;
}

// The word that a part opens on, in all of its pieces; afterwards the one that is chosen.
function openWord(part) {
  state.pieces = part.opening;
  state.word = part.opening.length ? part.opening[0] : null;
}
const chosenWords = () => (state.word === null ? null : state.pieces.includes(state.word) ? state.pieces : [state.word]);

// What the heads that are switched on give to special tokens: of these queries, on the average.
function specialShare(queries) {
  const heads = activeHeads(), part = state.part, probs = decoded(part.layers[state.layer]).probs, count = part.keys.length;
  let sum = 0;
  for (const head of heads) for (const query of queries) part.keys.forEach((token, key) => {
    if (token.special) sum += probs[(head * part.queries.length + query) * count + key] / STEP;
  });
  return sum / Math.max(1, heads.length * queries.length);
}

// The mean over the heads that are switched on.
function meanRow(query) {
  const heads = activeHeads(), made = new Float64Array(state.part.keys.length);
  for (const head of heads) {
    const one = row(state.part, state.layer, head, query);
    for (let key = 0; key < made.length; key++) made[key] += one[key] / heads.length;
  }
  return made;
}

const darkness = (prob) => Math.pow(Math.min(1, prob), 0.75);
