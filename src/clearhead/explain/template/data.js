// The numbers of the trace, decoded on first use.
const data = JSON.parse(document.getElementById("data").textContent);
const PROB_STEPS = 10000, MIN_DRAWN_PROB = 0.01, MAX_LINES = 5000;

function decodeBytes(text) {
  const binary = atob(text), array = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) array[i] = binary.charCodeAt(i);
  return array.buffer;
}

function decodeLayer(layer) {
  if (!layer.arrays) {
    layer.arrays = { probs: new Uint16Array(decodeBytes(layer.probs)) };
    if (layer.q) {
      layer.arrays.q = new Int16Array(decodeBytes(layer.q.values));
      layer.arrays.k = new Int16Array(decodeBytes(layer.k.values));
      layer.arrays.scores = new Float32Array(decodeBytes(layer.scores));
    }
  }
  return layer.arrays;
}

const start = data.parts.find((part) => part.part === data.start.part);
const state = {
  part: start, layer: data.start.layer, heads: new Set(), focus: data.start.focus,
  word: null, wordTokens: [], key: null,
  view: data.start.view || "lines", hide: data.start.hide, renormalize: false,
};
const allHeads = () => [...Array(state.part.layers[state.layer].heads).keys()];
state.heads = new Set(data.start.head === null ? allHeads() : [data.start.head]);

const shownTokens = (tokens) => {
  const indices = [...tokens.keys()], shown = indices.filter((i) => !(state.hide && tokens[i].special));
  return shown.length ? shown : indices;
};
const activeHeads = () => allHeads().filter((head) => state.heads.has(head));

// The probabilities of a query: those of the model, or renormalized over the visible keys.
function probRow(part, layer, head, query) {
  const probs = decodeLayer(part.layers[layer]).probs, count = part.keys.length;
  const at = (head * part.queries.length + query) * count, row = new Float64Array(count);
  for (let key = 0; key < count; key++) row[key] = probs[at + key] / PROB_STEPS;
  if (state.hide && state.renormalize) {
    let sum = 0;
    for (let key = 0; key < count; key++) if (!part.keys[key].special) sum += row[key];
    if (sum > 0) for (let key = 0; key < count; key++) row[key] /= sum;
  }
  return row;
}

// Select the initial word of a part with all of its tokens; later selections are single tokens.
function openWord(part) {
  state.wordTokens = part.opening;
  state.word = part.opening.length ? part.opening[0] : null;
}
const selectedWords = () => (state.word === null ? null : state.wordTokens.includes(state.word) ? state.wordTokens : [state.word]);

// The mean attention of these queries to special tokens in the selected heads.
function specialShare(queries) {
  const heads = activeHeads(), part = state.part, probs = decodeLayer(part.layers[state.layer]).probs, count = part.keys.length;
  let sum = 0;
  for (const head of heads) for (const query of queries) part.keys.forEach((token, key) => {
    if (token.special) sum += probs[(head * part.queries.length + query) * count + key] / PROB_STEPS;
  });
  return sum / Math.max(1, heads.length * queries.length);
}

// The mean over the selected heads.
function meanProbRow(query) {
  const heads = activeHeads(), row = new Float64Array(state.part.keys.length);
  for (const head of heads) {
    const headRow = probRow(state.part, state.layer, head, query);
    for (let key = 0; key < row.length; key++) row[key] += headRow[key] / heads.length;
  }
  return row;
}

const probOpacity = (prob) => Math.pow(Math.min(1, prob), 0.75);
