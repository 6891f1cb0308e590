// Overview of all layers and heads as small matrices; selecting one shows it large.
function drawOverview() {
  const part = state.part, maxHeads = Math.max(...part.layers.map((layer) => layer.heads));
  const box = empty(byId("overview")), table = make(box, "table", { "aria-label": "Layers by heads" });
  const thumbSize = Math.max(18, Math.min(44, ((box.clientWidth || 500) - 52) / maxHeads - 5));
  box.style.setProperty("--thumb", `${thumbSize}px`);
  const headerRow = make(make(table, "thead"), "tr");
  make(headerRow, "th", { scope: "col" }, "layer");
  for (let head = 0; head < maxHeads; head++) make(headerRow, "th", { scope: "col" }, String(head));
  const body = make(table, "tbody"), buttons = [];
  part.layers.forEach((layer, number) => {
    const tableRow = make(body, "tr");
    make(tableRow, "th", { scope: "row" }, String(number));
    for (let head = 0; head < layer.heads; head++) {
      const button = make(make(tableRow, "td"), "button", { type: "button", "data-layer": number, "data-head": head,
        "aria-label": `layer ${number}, head ${head}`, title: `layer ${number}, head ${head}` });
      const probs = decodeLayer(layer).probs, rows = shownTokens(part.queries), columns = shownTokens(part.keys);
      paintMatrix(make(button, "canvas", { "aria-hidden": "true" }), rows.length, columns.length, readColor(`--head${head}`),
        (i) => (j) => probs[(head * part.queries.length + rows[i]) * part.keys.length + columns[j]] / PROB_STEPS);
      button.addEventListener("click", () => {
        state.layer = number; state.heads = new Set([head]); state.focus = head;
        refresh();
      });
      buttons.push(button);
    }
  });
  addArrowKeys(buttons, maxHeads);
  updateOverview();
}

function updateOverview() {
  let first = true;
  document.querySelectorAll("#overview button").forEach((button) => {
    const isSelected = Number(button.dataset.layer) === state.layer && state.heads.has(Number(button.dataset.head));
    button.setAttribute("aria-pressed", isSelected);
    button.setAttribute("tabindex", isSelected && first ? 0 : -1);
    if (isSelected) first = false;
  });
  const firstButton = document.querySelector("#overview button");
  if (first && firstButton) firstButton.setAttribute("tabindex", 0);
}
