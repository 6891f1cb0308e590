// Lines from queries (left) to keys (right).
const lines = { left: 0, right: 0, top: 26, step: 24 };
const y = (index) => lines.top + lines.step * (index + 0.5);

function drawLines(box) {
  const queries = shownTokens(state.part.queries), keys = shownTokens(state.part.keys);
  const width = Math.max(280, Math.min(720, box.clientWidth || 600)), size = width < 420 ? 13 : 14;
  const height = lines.top + lines.step * Math.max(queries.length, keys.length) + 6;
  const svg = make(box, "svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-size": size, role: "group",
    "aria-label": "Queries on the left, keys on the right" });
  const strokes = make(svg, "g", { id: "lines", "aria-hidden": "true" });
  const left = drawColumn(svg, state.part.queries, queries, "query"), right = drawColumn(svg, state.part.keys, keys, "key");
  const widest = (items) => Math.max(84, ...items.map((item) => item.querySelector("text").getComputedTextLength()));
  lines.left = Math.min(width * 0.42, widest(left) + 14);
  lines.right = width - Math.min(width * 0.42, widest(right) + 14);
  positionLabels(left, queries, 0, lines.left - 7, "end", lines.left);
  positionLabels(right, keys, lines.right, lines.right + 7, "start", width - lines.right);
  make(svg, "text", { x: lines.left - 7, y: 15, class: "soft", "text-anchor": "end", "font-size": 12 }, "query");
  make(svg, "text", { x: lines.right + 7, y: 15, class: "soft", "font-size": 12 }, "key");
  addArrowKeys(left, 1);
  addArrowKeys(right, 1);
  drawStrokes(strokes, queries, keys, selectedWords(), state.word === null ? state.key : null);
  const redraw = (query, key) => drawStrokes(strokes, queries, keys, query, key);
  left.forEach((item, i) => {
    item.addEventListener("pointerenter", () => { redraw([queries[i]], null); updateReadout([queries[i]]); });
    item.addEventListener("pointerleave", restore);
  });
  right.forEach((item, i) => {
    if (state.word !== null) return;
    item.addEventListener("pointerenter", () => redraw(null, keys[i]));
    item.addEventListener("pointerleave", restore);
  });
  function restore() { redraw(selectedWords(), state.word === null ? state.key : null); updateReadout(selectedWords()); }
}

function drawColumn(svg, tokens, shown, side) {
  return shown.map((index, i) => {
    const token = tokens[index], selected = side === "query" ? state.word : state.key;
    const pressed = side === "query" ? (selectedWords() || []).includes(index) : selected === index;
    const item = make(svg, "g", { class: token.special ? "word special" : "word", role: "button", "data-side": side,
      "data-index": index, tabindex: selected === index || (selected === null && i === 0) ? 0 : -1,
      "aria-pressed": pressed, "aria-label": `${side} ${index}: ${token.whole}` });
    make(item, "title", {}, token.whole);
    make(item, "rect", { rx: 4 });
    make(item, "text", {}, token.label);
    const select = () => (side === "query" ? selectWord(index) : selectKey(index));
    item.addEventListener("click", select);
    item.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      select();
    });
    return item;
  });
}

function positionLabels(items, shown, x, textX, anchor, width) {
  items.forEach((item, i) => {
    const box = item.querySelector("rect"), text = item.querySelector("text");
    for (const [name, value] of Object.entries({ x: x + 2, y: y(i) - 11, width: Math.max(0, width - 4), height: 22 }))
      box.setAttribute(name, value);
    text.setAttribute("x", textX);
    text.setAttribute("y", y(i) + 5);
    text.setAttribute("text-anchor", anchor);
  });
}

// Draw the lines from `words` (null: all) to `key` (null: all).
function drawStrokes(group, queries, keys, words, key) {
  const heads = activeHeads(), links = [];
  empty(group);
  heads.forEach((head, lane) => {
    queries.forEach((q, i) => {
      if (words !== null && !words.includes(q)) return;
      const probs = probRow(state.part, state.layer, head, q);
      keys.forEach((k, j) => {
        if (probs[k] >= MIN_DRAWN_PROB && (key === null || k === key)) links.push([probs[k], head, lane, i, j]);
      });
    });
  });
  links.sort((a, b) => a[0] - b[0]);
  const drawn = links.slice(-MAX_LINES);
  lines.omitted = links.length - drawn.length;
  if (words !== null) drawStripes(group, heads, words, keys);
  for (const [prob, head, lane, i, j] of drawn) {
    const shift = 15 * ((lane + 0.5) / heads.length - 0.5);
    make(group, "line", { x1: lines.left, y1: y(i) + shift, x2: lines.right, y2: y(j) + shift,
      style: `stroke: ${headColor(head)}`, "stroke-opacity": probOpacity(prob).toFixed(4),
      "stroke-width": (1 + 2 * prob).toFixed(2), "data-head": head, "data-query": queries[i], "data-key": keys[j] });
  }
}

// Draw a stripe behind each key for each head that attends to it.
function drawStripes(group, heads, words, keys) {
  const width = group.ownerSVGElement.viewBox.baseVal.width - lines.right;
  heads.forEach((head, lane) => {
    const rows = words.map((word) => probRow(state.part, state.layer, head, word));
    keys.forEach((k, j) => {
      const prob = Math.max(...rows.map((probs) => probs[k]));
      if (prob >= MIN_DRAWN_PROB) make(group, "rect", { x: lines.right + width * lane / heads.length, y: y(j) - 11,
        width: width / heads.length, height: 22, style: `fill: ${headColor(head)}`,
        "fill-opacity": (0.5 * probOpacity(prob)).toFixed(3) });
    });
  });
}
