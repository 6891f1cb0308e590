// Lines from the words that look (left) to the words they look at (right).
const lines = { left: 0, right: 0, top: 26, step: 24 };
const y = (place) => lines.top + lines.step * (place + 0.5);

function drawLines(box) {
  const queries = shownTokens(state.part.queries), keys = shownTokens(state.part.keys);
  const width = Math.max(280, Math.min(720, box.clientWidth || 600)), size = width < 420 ? 13 : 14;
  const height = lines.top + lines.step * Math.max(queries.length, keys.length) + 6;
  const svg = make(box, "svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-size": size, role: "group",
    "aria-label": "Words that look on the left, words they look at on the right" });
  const strokes = make(svg, "g", { id: "lines", "aria-hidden": "true" });
  const left = column(svg, state.part.queries, queries, "query"), right = column(svg, state.part.keys, keys, "key");
  const widest = (items) => Math.max(84, ...items.map((item) => item.querySelector("text").getComputedTextLength()));
  lines.left = Math.min(width * 0.42, widest(left) + 14);
  lines.right = width - Math.min(width * 0.42, widest(right) + 14);
  place(left, queries, 0, lines.left - 7, "end", lines.left);
  place(right, keys, lines.right, lines.right + 7, "start", width - lines.right);
  make(svg, "text", { x: lines.left - 7, y: 15, class: "soft", "text-anchor": "end", "font-size": 12 }, "looks (query)");
  make(svg, "text", { x: lines.right + 7, y: 15, class: "soft", "font-size": 12 }, "at (key)");
  roving(left, 1);
  roving(right, 1);
  strokeLines(strokes, queries, keys, chosenWords(), state.word === null ? state.key : null);
  const show = (query, key) => strokeLines(strokes, queries, keys, query, key);
  left.forEach((item, i) => {
    item.addEventListener("pointerenter", () => { show([queries[i]], null); tell([queries[i]]); });
    item.addEventListener("pointerleave", back);
  });
  right.forEach((item, i) => {
    if (state.word !== null) return;
    item.addEventListener("pointerenter", () => show(null, keys[i]));
    item.addEventListener("pointerleave", back);
  });
  function back() { show(chosenWords(), state.word === null ? state.key : null); tell(chosenWords()); }
}

function column(svg, tokens, shown, side) {
  return shown.map((index, i) => {
    const token = tokens[index], chosen = side === "query" ? state.word : state.key;
    const pressed = side === "query" ? (chosenWords() || []).includes(index) : chosen === index;
    const item = make(svg, "g", { class: token.special ? "word special" : "word", role: "button", "data-side": side,
      "data-index": index, tabindex: chosen === index || (chosen === null && i === 0) ? 0 : -1,
      "aria-pressed": pressed, "aria-label": `${side} ${index}: ${token.whole}` });
    make(item, "title", {}, token.whole);
    make(item, "rect", { rx: 4 });
    make(item, "text", {}, token.label);
    const choose = () => (side === "query" ? chooseWord(index) : chooseKey(index));
    item.addEventListener("click", choose);
    item.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose();
    });
    return item;
  });
}

function place(items, shown, x, textX, anchor, width) {
  items.forEach((item, i) => {
    const box = item.querySelector("rect"), text = item.querySelector("text");
    for (const [name, value] of Object.entries({ x: x + 2, y: y(i) - 11, width: Math.max(0, width - 4), height: 22 }))
      box.setAttribute(name, value);
    text.setAttribute("x", textX);
    text.setAttribute("y", y(i) + 5);
    text.setAttribute("text-anchor", anchor);
  });
}

// From these words (null: all) to this key (null: all).
function strokeLines(group, queries, keys, words, key) {
  const heads = activeHeads(), found = [];
  empty(group);
  heads.forEach((head, lane) => {
    queries.forEach((q, i) => {
      if (words !== null && !words.includes(q)) return;
      const probs = row(state.part, state.layer, head, q);
      keys.forEach((k, j) => {
        if (probs[k] >= FAINTEST && (key === null || k === key)) found.push([probs[k], head, lane, i, j]);
      });
    });
  });
  found.sort((a, b) => a[0] - b[0]);
  const kept = found.slice(-MOST_LINES);
  lines.left_out = found.length - kept.length;
  if (words !== null) stripes(group, heads, words, keys);
  for (const [prob, head, lane, i, j] of kept) {
    const shift = 15 * ((lane + 0.5) / heads.length - 0.5);
    make(group, "line", { x1: lines.left, y1: y(i) + shift, x2: lines.right, y2: y(j) + shift,
      style: `stroke: ${headColour(head)}`, "stroke-opacity": darkness(prob).toFixed(4),
      "stroke-width": (1 + 2 * prob).toFixed(2), "data-head": head, "data-query": queries[i], "data-key": keys[j] });
  }
}

// Behind each key, a stripe for each head that looks there.
function stripes(group, heads, words, keys) {
  const width = group.ownerSVGElement.viewBox.baseVal.width - lines.right;
  heads.forEach((head, lane) => {
    const rows = words.map((word) => row(state.part, state.layer, head, word));
    keys.forEach((k, j) => {
      const prob = Math.max(...rows.map((probs) => probs[k]));
      if (prob >= FAINTEST) make(group, "rect", { x: lines.right + width * lane / heads.length, y: y(j) - 11,
        width: width / heads.length, height: 22, style: `fill: ${headColour(head)}`,
        "fill-opacity": (0.5 * darkness(prob)).toFixed(3) });
    });
  });
}
