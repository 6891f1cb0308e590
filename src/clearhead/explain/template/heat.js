// Heat map: a row per query, a column per key.
function widestLabel(tokens, shown) {
  const context = document.createElement("canvas").getContext("2d");
  context.font = `100px ${getComputedStyle(document.body).fontFamily}`;
  return Math.max(1, ...shown.map((i) => context.measureText(tokens[i].label).width / 100));
}

function drawHeat(box) {
  const queries = shownTokens(state.part.queries), keys = shownTokens(state.part.keys), heads = activeHeads();
  const available = Math.max(280, Math.min(720, box.clientWidth || 600));
  const rowLabels = widestLabel(state.part.queries, queries), columnLabels = widestLabel(state.part.keys, keys);
  const cell = Math.max(keys.length > 64 ? 6 : 14, Math.min(30, (available - 13 * rowLabels - 10 - 7 * columnLabels) / keys.length));
  const size = Math.min(13, Math.max(5, cell * 0.75)), label = size * rowLabels + 10, above = size * columnLabels;
  const width = label + cell * keys.length + 0.55 * above + 4, top = 0.9 * above + 12, height = top + cell * queries.length + 4;
  const canvas = make(box, "canvas", { "aria-hidden": "true" });
  const rows = queries.map((query) => meanProbRow(query));
  const color = readColor(heads.length === 1 ? `--head${heads[0]}` : "--accent");
  paintMatrix(canvas, queries.length, keys.length, color, (i) => (j) => rows[i][keys[j]]);
  Object.assign(canvas.style, { left: `${label}px`, top: `${top}px`, width: `${cell * keys.length}px`,
    height: `${cell * queries.length}px` });
  const svg = make(box, "svg", { width, height, "font-size": size, tabindex: 0, role: "application",
    "aria-label": "Heat map: move between cells with the arrow keys, select with Enter" });
  svg.style.position = "relative";
  make(svg, "rect", { class: "frame", x: label, y: top, width: cell * keys.length, height: cell * queries.length });
  const addLabel = (token, attributes) => {
    const text = make(svg, "text", { class: token.special ? "soft" : "", ...attributes }, token.label);
    make(text, "title", {}, token.whole);
  };
  queries.forEach((q, i) => addLabel(state.part.queries[q],
    { x: label - 6, y: top + cell * (i + 0.5) + size * 0.35, "text-anchor": "end" }));
  keys.forEach((k, j) => {
    const x = label + cell * (j + 0.5) + size * 0.35;
    addLabel(state.part.keys[k], { x, y: top - 6, transform: `rotate(-60 ${x} ${top - 6})` });
  });
  const outline = make(svg, "rect", { class: "chosen", width: 0, height: 0 });
  let position = [Math.max(0, queries.indexOf(state.word)), Math.max(0, keys.indexOf(state.key))];
  outlineCell(state.word !== null && queries.includes(state.word));

  function outlineCell(isVisible) {
    const isWholeRow = state.key === null && !svg.matches(":focus-visible");
    const area = { x: isWholeRow ? label : label + cell * position[1], y: top + cell * position[0],
      width: isVisible ? (isWholeRow ? cell * keys.length : cell) : 0, height: isVisible ? cell : 0 };
    for (const [name, value] of Object.entries(area)) outline.setAttribute(name, value);
  }
  function describeCell() {
    const [i, j] = position, headNames = heads.length === 1 ? `head ${heads[0]}` : `mean of ${heads.length} heads`;
    byId("readout").textContent = `${state.part.queries[queries[i]].whole} → ${state.part.keys[keys[j]].whole}: ` +
      `${rows[i][keys[j]].toFixed(4)} (${headNames})`;
  }
  function findCell(event) {
    const frame = svg.getBoundingClientRect();
    const j = Math.floor((event.clientX - frame.left - label) / cell), i = Math.floor((event.clientY - frame.top - top) / cell);
    return i >= 0 && j >= 0 && i < queries.length && j < keys.length ? [i, j] : null;
  }
  svg.addEventListener("pointermove", (event) => { const target = findCell(event); if (target) { position = target; describeCell(); } });
  svg.addEventListener("click", (event) => {
    const target = findCell(event);
    if (target) selectPair(queries[target[0]], keys[target[1]]);
  });
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Enter") { selectPair(queries[position[0]], keys[position[1]]); return; }
    if (!move) return;
    event.preventDefault();
    position = [Math.min(queries.length - 1, Math.max(0, position[0] + move[0])), Math.min(keys.length - 1, Math.max(0, position[1] + move[1]))];
    outlineCell(true);
    describeCell();
  });
}
