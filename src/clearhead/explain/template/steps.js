// One query and one key: element-wise products, their sum, the scaling, and the softmax.
function drawComputation() {
  const part = state.part, layer = part.layers[state.layer], box = empty(byId("working"));
  if (!layer.q) {
    byId("pair").hidden = true;
    make(box, "p", { class: "note" }, "Queries and keys are not included: they are too large for this page, " +
      "or this attention is not a dot product. Use a shorter text, or read them from the trace in Python.");
    return;
  }
  const head = state.heads.has(state.focus) || !state.heads.size ? state.focus : activeHeads()[0];
  const query = state.word === null ? Math.max(0, part.queries.findIndex((token) => !token.special)) : state.word;
  const arrays = decodeLayer(layer), count = part.keys.length, d = layer.width, at = (head * part.queries.length + query) * count;
  const probs = [...part.keys.keys()].map((k) => arrays.probs[at + k] / PROB_STEPS);
  const wordProbs = probs.map((prob, i) => (part.keys[i].special ? prob - 1 : prob));
  const key = state.key === null ? wordProbs.indexOf(Math.max(...wordProbs)) : state.key;
  fillSelect(byId("pair-head"), allHeads().map((h) => [h, `head ${h}`]), head);
  const tokenOptions = (tokens) => shownTokens(tokens).map((i) => [i, `${i}: ${tokens[i].label}`]);
  fillSelect(byId("pair-query"), tokenOptions(part.queries), query);
  fillSelect(byId("pair-key"), tokenOptions(part.keys), key);
  const q = vector(arrays.q, layer.q.unit, head * part.queries.length + query, d);
  const k = vector(arrays.k, layer.k.unit, head * count + key, d);
  const product = q.map((value, i) => value * k[i]), sum = product.reduce((a, b) => a + b, 0);
  drawStrip(box, `q  ${part.queries[query].label}`, "query", q);
  drawStrip(box, `k  ${part.keys[key].label}`, "key", k);
  drawStrip(box, "q × k", "product", product);
  const score = arrays.scores[at + key], scaled = sum / Math.sqrt(d), bias = score - scaled;
  const sums = make(box, "dl", { class: "sums" });
  const addSum = (name, value) => { make(sums, "dt", {}, name); make(sums, "dd", {}, value); };
  addSum(`sum of the ${d} products, q·k`, formatNumber(sum, 3));
  addSum(`divided by √${d} = ${Math.sqrt(d).toFixed(3)}`, formatNumber(scaled, 3));
  if (score < -1e8) addSum("masked", "−∞");
  else if (Math.abs(bias) > 0.005 + 0.001 * Math.abs(score)) {
    addSum("position bias, or a model-specific scale", (bias < 0 ? "" : "+") + formatNumber(bias, 3));
    addSum("score", formatNumber(score, 3));
  }
  addSum(`softmax over ${count} keys`, probs[key].toFixed(4));
  drawScoreTable(box, [...part.keys.keys()].map((i) => arrays.scores[at + i]), probs, key, head);
}

const vector = (values, unit, index, d) => Array.from(values.subarray(index * d, (index + 1) * d), (value) => value * unit);

function fillSelect(select, options, selected) {
  empty(select);
  for (const [value, text] of options) make(select, "option", { value }, text);
  select.value = String(selected);
}

function drawStrip(box, name, kind, values) {
  const line = make(box, "div", { class: "strip" }), limit = Math.max(...values.map(Math.abs)) || 1;
  make(line, "span", {}, name);
  const sum = values.reduce((a, b) => a + b, 0);
  const cells = make(line, "div", { class: "cells", role: "img",
    "aria-label": `${kind}: ${values.length} numbers from ${formatNumber(Math.min(...values), 2)} to ${formatNumber(Math.max(...values), 2)}, sum ${formatNumber(sum, 2)}` });
  values.forEach((value, i) => {
    const cell = make(cells, "i", { title: `${i}: ${formatNumber(value, 3)}` });
    cell.style.background = value < 0 ? "var(--minus)" : "var(--plus)";
    cell.style.opacity = (Math.abs(value) / limit).toFixed(3);
  });
}

function drawScoreTable(box, scores, probs, key, head) {
  const frame = make(box, "div", { class: "bars", tabindex: 0, role: "region", "aria-label": "Scores and probabilities of all keys" });
  const table = make(frame, "table"), headerRow = make(make(table, "thead"), "tr"), body = make(table, "tbody");
  for (const name of ["key", "score", "softmax", ""]) make(headerRow, "th", { scope: "col" }, name);
  const addRow = (label, tooltip, score, prob, isSelected) => {
    const line = make(body, "tr", isSelected ? { class: "near" } : {});
    make(line, "th", { scope: "row", title: tooltip }, label);
    make(line, "td", {}, score);
    make(line, "td", {}, prob.toFixed(4));
    const bar = make(make(line, "td"), "span", { class: "bar" });
    bar.style.width = `${(100 * prob).toFixed(2)}%`;
    bar.style.background = headColor(head);
  };
  const tokens = state.part.keys, shown = shownTokens(tokens);
  for (const i of shown)
    addRow(tokens[i].label, tokens[i].whole, scores[i] < -1e8 ? "−∞" : formatNumber(scores[i], 2), probs[i], i === key);
  if (shown.length < tokens.length) {
    const hiddenShare = probs.reduce((sum, prob, i) => sum + (shown.includes(i) ? 0 : prob), 0);
    addRow("special tokens", "hidden, but included in the softmax", "", hiddenShare, false);
  }
}
