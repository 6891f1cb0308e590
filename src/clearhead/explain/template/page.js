// Selections and their effects.
function selectWord(index) {
  state.word = state.word === index && selectedWords().length < 2 ? null : index;
  state.wordTokens = [];
  state.key = null;
  refresh(`[data-side="query"][data-index="${index}"]`);
}

function selectKey(index) {
  state.key = state.key === index ? null : index;
  refresh(`[data-side="key"][data-index="${index}"]`);
}

function selectPair(query, key) {
  state.word = query; state.wordTokens = []; state.key = key;
  refresh("#picture svg");
}

// Describe the strongest links of a word (the mean over its tokens) in a sentence.
function updateReadout(words) {
  const part = state.part, heads = activeHeads();
  const headNames = heads.length === 1 ? `head ${heads[0]}` : `mean of ${heads.length} heads`;
  let text = "Select a word on the left to see only its lines, or one on the right to see which words attend to it.";
  if (!heads.length) text = "No head is selected.";
  else if (words !== null) {
    const rows = words.map(meanProbRow), probs = part.keys.map((_, key) => rows.reduce((sum, wordRow) => sum + wordRow[key], 0) / rows.length);
    const strongest = shownTokens(part.keys).sort((a, b) => probs[b] - probs[a]).slice(0, 5);
    text = `${words.map((word) => part.queries[word].label).join(" ")} attends to ` +
      strongest.map((key) => `${part.keys[key].label} ${probs[key].toFixed(2)}`).join(", ") + ` (${headNames}).`;
  } else if (lines.omitted && state.view === "lines") text += ` Only the ${MAX_LINES} strongest lines are drawn.`;
  byId("readout").textContent = text;
  updateHiddenNote(words);
}

// State the share of attention that hidden special tokens receive.
function updateHiddenNote(words) {
  const part = state.part, queries = words || shownTokens(part.queries);
  const hasHidden = shownTokens(part.keys).length < part.keys.length;
  byId("hidden").textContent = !hasHidden ? "" : state.renormalize
    ? "Special tokens are hidden, and the probabilities of the other tokens are renormalized to add up to 1."
    : `Special tokens are hidden: they get ${Math.round(100 * specialShare(queries))} % of the attention` +
      `${words === null ? "" : " of this word"}. The probabilities are the model's own, not renormalized.`;
}

function drawHeadButtons() {
  const box = empty(byId("chips"));
  allHeads().forEach((head) => {
    const chip = make(box, "button", { type: "button", class: "chip", "aria-pressed": state.heads.has(head),
      "aria-label": `head ${head}`, title: "Select or deselect this head; double-click to select only this head" }, String(head));
    chip.style.setProperty("--head-color", headColor(head));
    chip.addEventListener("click", () => {
      state.heads.has(head) ? state.heads.delete(head) : state.heads.add(head);
      if (state.heads.has(head)) state.focus = head;
      refresh(`[aria-label="head ${head}"]`);
    });
    chip.addEventListener("dblclick", () => { state.heads = new Set([head]); state.focus = head; refresh(); });
  });
}

function refresh(focus) {
  const part = state.part, isHidden = (tokens, i) => i !== null && state.hide && tokens[i].special;
  state.heads = new Set(activeHeads());
  if (state.focus >= allHeads().length) state.focus = 0;
  if (isHidden(part.queries, state.word)) state.word = null;
  if (isHidden(part.keys, state.key)) state.key = null;
  byId("layer").value = String(state.layer);
  byId("renormalize").disabled = !state.hide;
  byId("clear").hidden = state.word === null && state.key === null;
  const heads = activeHeads();
  byId("picture-title").textContent = `${part.name}, layer ${state.layer} of 0 to ${part.layers.length - 1}, ` +
    (heads.length === 1 ? `head ${heads[0]}` : `${heads.length} heads`);
  drawHeadButtons();
  const box = byId("picture"), scroll = box.scrollTop;
  empty(box);
  state.view === "lines" ? drawLines(box) : drawHeat(box);
  box.scrollTop = scroll;
  updateOverview();
  drawComputation();
  updateReadout(selectedWords());
  const focused = focus && document.querySelector(focus);
  if (focused) focused.focus({ preventScroll: true });
}

function selectPart(name) {
  const isSame = state.part.part === name;
  state.part = data.parts.find((part) => part.part === name);
  if (!isSame) state.key = null;
  openWord(state.part);
  state.layer = Math.min(state.layer, state.part.layers.length - 1);
  if (!isSame) state.heads = new Set(allHeads());
  fillSelect(byId("layer"), state.part.layers.map((_, i) => [i, String(i)]), state.layer);
  drawOverview();
  refresh();
}

fillSelect(byId("part"), data.parts.map((part) => [part.part, part.name]), state.part.part);
byId("part-choice").hidden = data.parts.length < 2;
byId("part").addEventListener("change", (event) => selectPart(event.target.value));
byId("layer").addEventListener("change", (event) => { state.layer = Number(event.target.value); refresh(); });
document.querySelectorAll("[name=view]").forEach((radio) => {
  radio.checked = radio.value === state.view;
  radio.addEventListener("change", () => { state.view = radio.value; refresh(); });
});
byId("hide").checked = state.hide;
byId("hide").addEventListener("change", (event) => { state.hide = event.target.checked; drawOverview(); refresh(); });
byId("renormalize").addEventListener("change", (event) => { state.renormalize = event.target.checked; refresh(); });
byId("all").addEventListener("click", () => { state.heads = new Set(allHeads()); refresh(); });
byId("none").addEventListener("click", () => { state.heads = new Set(); refresh(); });
byId("pair-head").addEventListener("change", (event) => {
  state.focus = Number(event.target.value); state.heads.add(state.focus); refresh();
});
byId("pair-query").addEventListener("change", (event) => { state.word = Number(event.target.value); state.wordTokens = []; refresh(); });
byId("pair-key").addEventListener("change", (event) => { state.key = Number(event.target.value); refresh(); });
const clearSelection = () => { state.word = null; state.key = null; refresh(); };
byId("clear").addEventListener("click", clearSelection);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && (state.word !== null || state.key !== null)) clearSelection();
});
let lastWidth = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === lastWidth) return;
  lastWidth = window.innerWidth;
  drawOverview();
  refresh();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { drawOverview(); refresh(); });
selectPart(state.part.part);
