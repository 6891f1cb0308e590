// Every layer and head at a glance: small matrices; choosing one shows it large.
function drawOverview() {
  const part = state.part, most = Math.max(...part.layers.map((layer) => layer.heads));
  const box = empty(byId("overview")), table = make(box, "table", { "aria-label": "Layers by heads" });
  const side = Math.max(18, Math.min(44, ((box.clientWidth || 500) - 52) / most - 5));
  box.style.setProperty("--thumb", `${side}px`);
  const top = make(make(table, "thead"), "tr");
  make(top, "th", { scope: "col" }, "layer");
  for (let head = 0; head < most; head++) make(top, "th", { scope: "col" }, String(head));
  const body = make(table, "tbody"), buttons = [];
  part.layers.forEach((layer, number) => {
    const line = make(body, "tr");
    make(line, "th", { scope: "row" }, String(number));
    for (let head = 0; head < layer.heads; head++) {
      const button = make(make(line, "td"), "button", { type: "button", "data-layer": number, "data-head": head,
        "aria-label": `layer ${number}, head ${head}`, title: `layer ${number}, head ${head}` });
      const probs = decoded(layer).probs, rows = shownTokens(part.queries), columns = shownTokens(part.keys);
      paint(make(button, "canvas", { "aria-hidden": "true" }), rows.length, columns.length, resolved(`--head${head}`),
        (i) => (j) => probs[(head * part.queries.length + rows[i]) * part.keys.length + columns[j]] / STEP);
      button.addEventListener("click", () => {
        state.layer = number; state.heads = new Set([head]); state.focus = head;
        refresh();
      });
      buttons.push(button);
    }
  });
  roving(buttons, most);
  markOverview();
}

function markOverview() {
  let first = true;
  document.querySelectorAll("#overview button").forEach((button) => {
    const on = Number(button.dataset.layer) === state.layer && state.heads.has(Number(button.dataset.head));
    button.setAttribute("aria-pressed", on);
    button.setAttribute("tabindex", on && first ? 0 : -1);
    if (on) first = false;
  });
  const any = document.querySelector("#overview button");
  if (first && any) any.setAttribute("tabindex", 0);
}
