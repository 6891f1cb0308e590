// One query and one key: the product element by element, its sum, the scale, the softmax.
function drawSteps() {
  const part = state.part, layer = part.layers[state.layer], box = empty(byId("working"));
  if (!layer.q) {
    byId("pair").hidden = true;
    make(box, "p", { class: "note" }, "The queries and keys are left out: those of this text are too many for one page, " +
      "or this attention does not multiply them. Take a shorter text, or read them from the trace in Python.");
    return;
  }
  const head = state.heads.has(state.focus) || !state.heads.size ? state.focus : activeHeads()[0];
  const query = state.word === null ? Math.max(0, part.queries.findIndex((token) => !token.special)) : state.word;
  const ready = decoded(layer), count = part.keys.length, d = layer.width, at = (head * part.queries.length + query) * count;
  const probs = [...part.keys.keys()].map((k) => ready.probs[at + k] / STEP);
  const wordly = probs.map((prob, i) => (part.keys[i].special ? prob - 1 : prob));
  const key = state.key === null ? wordly.indexOf(Math.max(...wordly)) : state.key;
  fill(byId("pair-head"), allHeads().map((h) => [h, `head ${h}`]), head);
  const named = (tokens) => shownTokens(tokens).map((i) => [i, `${i}: ${tokens[i].label}`]);
  fill(byId("pair-query"), named(part.queries), query);
  fill(byId("pair-key"), named(part.keys), key);
  const q = vector(ready.q, layer.q.unit, head * part.queries.length + query, d);
  const k = vector(ready.k, layer.k.unit, head * count + key, d);
  const product = q.map((value, i) => value * k[i]), sum = product.reduce((a, b) => a + b, 0);
  strip(box, `q  ${part.queries[query].label}`, "query", q);
  strip(box, `k  ${part.keys[key].label}`, "key", k);
  strip(box, "q × k", "product", product);
  const score = ready.scores[at + key], plain = sum / Math.sqrt(d), rest = score - plain;
  const sums = make(box, "dl", { class: "sums" });
  const say = (name, value) => { make(sums, "dt", {}, name); make(sums, "dd", {}, value); };
  say(`sum of the ${d} products, q·k`, fixed(sum, 3));
  say(`divided by √${d} = ${Math.sqrt(d).toFixed(3)}`, fixed(plain, 3));
  if (score < -1e8) say("masked: this key may not be seen", "−∞");
  else if (Math.abs(rest) > 0.005 + 0.001 * Math.abs(score)) {
    say("position bias, or a scale of the model's own", (rest < 0 ? "" : "+") + fixed(rest, 3));
    say("score", fixed(score, 3));
  }
  say(`softmax over ${count} keys`, probs[key].toFixed(4));
  bars(box, [...part.keys.keys()].map((i) => ready.scores[at + i]), probs, key, head);
}

const vector = (values, unit, place, d) => Array.from(values.subarray(place * d, (place + 1) * d), (value) => value * unit);

function fill(select, options, chosen) {
  empty(select);
  for (const [value, text] of options) make(select, "option", { value }, text);
  select.value = String(chosen);
}

function strip(box, name, kind, values) {
  const line = make(box, "div", { class: "strip" }), most = Math.max(...values.map(Math.abs)) || 1;
  make(line, "span", {}, name);
  const sum = values.reduce((a, b) => a + b, 0);
  const cells = make(line, "div", { class: "cells", role: "img",
    "aria-label": `${kind}: ${values.length} numbers from ${fixed(Math.min(...values), 2)} to ${fixed(Math.max(...values), 2)}, sum ${fixed(sum, 2)}` });
  values.forEach((value, i) => {
    const one = make(cells, "i", { title: `${i}: ${fixed(value, 3)}` });
    one.style.background = value < 0 ? "var(--minus)" : "var(--plus)";
    one.style.opacity = (Math.abs(value) / most).toFixed(3);
  });
}

function bars(box, scores, probs, key, head) {
  const frame = make(box, "div", { class: "bars", tabindex: 0, role: "region", "aria-label": "Scores and probabilities of all keys" });
  const table = make(frame, "table"), top = make(make(table, "thead"), "tr"), body = make(table, "tbody");
  for (const name of ["key", "score", "softmax", ""]) make(top, "th", { scope: "col" }, name);
  const write = (label, whole, score, prob, near) => {
    const line = make(body, "tr", near ? { class: "near" } : {});
    make(line, "th", { scope: "row", title: whole }, label);
    make(line, "td", {}, score);
    make(line, "td", {}, prob.toFixed(4));
    const bar = make(make(line, "td"), "span", { class: "bar" });
    bar.style.width = `${(100 * prob).toFixed(2)}%`;
    bar.style.background = headColour(head);
  };
  const tokens = state.part.keys, shown = shownTokens(tokens);
  for (const i of shown)
    write(tokens[i].label, tokens[i].whole, scores[i] < -1e8 ? "−∞" : fixed(scores[i], 2), probs[i], i === key);
  if (shown.length < tokens.length) {
    const rest = probs.reduce((sum, prob, i) => sum + (shown.includes(i) ? 0 : prob), 0);
    write("special tokens", "hidden; the softmax goes over them, too", "", rest, false);
  }
}
