// Choices and what follows from them.
function chooseWord(index) {
  state.word = state.word === index && chosenWords().length < 2 ? null : index;
  state.pieces = [];
  state.key = null;
  refresh(`[data-side="query"][data-index="${index}"]`);
}

function chooseKey(index) {
  state.key = state.key === index ? null : index;
  refresh(`[data-side="key"][data-index="${index}"]`);
}

function choosePair(query, key) {
  state.word = query; state.pieces = []; state.key = key;
  refresh("#picture svg");
}

// The strongest of a word's lines, in words; of its pieces the mean.
function tell(words) {
  const part = state.part, heads = activeHeads();
  const who = heads.length === 1 ? `head ${heads[0]}` : `mean of ${heads.length} heads`;
  let text = "Choose a word on the left to see only its lines, or on the right to see who looks at it.";
  if (!heads.length) text = "No head is switched on.";
  else if (words !== null) {
    const rows = words.map(meanRow), probs = part.keys.map((_, key) => rows.reduce((sum, one) => sum + one[key], 0) / rows.length);
    const best = shownTokens(part.keys).sort((a, b) => probs[b] - probs[a]).slice(0, 5);
    text = `${words.map((word) => part.queries[word].label).join(" ")} looks at ` +
      best.map((key) => `${part.keys[key].label} ${probs[key].toFixed(2)}`).join(", ") + ` (${who}).`;
  } else if (lines.left_out && state.view === "lines") text += ` Only the ${MOST_LINES} strongest lines are drawn.`;
  byId("readout").textContent = text;
  tellHidden(words);
}

// What is not shown is said: the share of special tokens.
function tellHidden(words) {
  const part = state.part, queries = words || shownTokens(part.queries);
  const hidden = shownTokens(part.keys).length < part.keys.length;
  byId("hidden").textContent = !hidden ? "" : state.again
    ? "Special tokens are hidden, and the probabilities of the other tokens are renormalized to add up to 1."
    : `Special tokens are hidden: they get ${Math.round(100 * specialShare(queries))} % of the attention` +
      `${words === null ? "" : " of this word"}. The probabilities are the model's own, not renormalized.`;
}

function drawChips() {
  const box = empty(byId("chips"));
  allHeads().forEach((head) => {
    const chip = make(box, "button", { type: "button", class: "chip", "aria-pressed": state.heads.has(head),
      "aria-label": `head ${head}`, title: "Switch this head on or off; double-click for this one alone" }, String(head));
    chip.style.setProperty("--colour", headColour(head));
    chip.addEventListener("click", () => {
      state.heads.has(head) ? state.heads.delete(head) : state.heads.add(head);
      if (state.heads.has(head)) state.focus = head;
      refresh(`[aria-label="head ${head}"]`);
    });
    chip.addEventListener("dblclick", () => { state.heads = new Set([head]); state.focus = head; refresh(); });
  });
}

function refresh(focus) {
  const part = state.part, hidden = (tokens, i) => i !== null && state.hide && tokens[i].special;
  state.heads = new Set(activeHeads());
  if (state.focus >= allHeads().length) state.focus = 0;
  if (hidden(part.queries, state.word)) state.word = null;
  if (hidden(part.keys, state.key)) state.key = null;
  byId("layer").value = String(state.layer);
  byId("again").disabled = !state.hide;
  byId("free").hidden = state.word === null && state.key === null;
  const heads = activeHeads();
  byId("picture-title").textContent = `${part.name}, layer ${state.layer} of 0 to ${part.layers.length - 1}, ` +
    (heads.length === 1 ? `head ${heads[0]}` : `${heads.length} heads`);
  drawChips();
  const box = byId("picture"), scroll = box.scrollTop;
  empty(box);
  state.view === "lines" ? drawLines(box) : drawHeat(box);
  box.scrollTop = scroll;
  markOverview();
  drawSteps();
  tell(chosenWords());
  const again = focus && document.querySelector(focus);
  if (again) again.focus({ preventScroll: true });
}

function choosePart(name) {
  const same = state.part.part === name;
  state.part = data.parts.find((part) => part.part === name);
  if (!same) state.key = null;
  openWord(state.part);
  state.layer = Math.min(state.layer, state.part.layers.length - 1);
  if (!same) state.heads = new Set(allHeads());
  fill(byId("layer"), state.part.layers.map((_, i) => [i, String(i)]), state.layer);
  drawOverview();
  refresh();
}

fill(byId("part"), data.parts.map((part) => [part.part, part.name]), state.part.part);
byId("part-choice").hidden = data.parts.length < 2;
byId("part").addEventListener("change", (event) => choosePart(event.target.value));
byId("layer").addEventListener("change", (event) => { state.layer = Number(event.target.value); refresh(); });
document.querySelectorAll("[name=view]").forEach((radio) => {
  radio.checked = radio.value === state.view;
  radio.addEventListener("change", () => { state.view = radio.value; refresh(); });
});
byId("hide").checked = state.hide;
byId("hide").addEventListener("change", (event) => { state.hide = event.target.checked; drawOverview(); refresh(); });
byId("again").addEventListener("change", (event) => { state.again = event.target.checked; refresh(); });
byId("all").addEventListener("click", () => { state.heads = new Set(allHeads()); refresh(); });
byId("none").addEventListener("click", () => { state.heads = new Set(); refresh(); });
byId("pair-head").addEventListener("change", (event) => {
  state.focus = Number(event.target.value); state.heads.add(state.focus); refresh();
});
byId("pair-query").addEventListener("change", (event) => { state.word = Number(event.target.value); state.pieces = []; refresh(); });
byId("pair-key").addEventListener("change", (event) => { state.key = Number(event.target.value); refresh(); });
const free = () => { state.word = null; state.key = null; refresh(); };
byId("free").addEventListener("click", free);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && (state.word !== null || state.key !== null)) free();
});
let wide = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === wide) return;
  wide = window.innerWidth;
  drawOverview();
  refresh();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { drawOverview(); refresh(); });
choosePart(state.part.part);
