// Making elements. Texts from the trace go in by textContent and setAttribute only.
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

function make(parent, tag, attributes, text) {
  const made = parent.namespaceURI === SVG || tag === "svg"
    ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  parent.appendChild(made);
  return made;
}

const empty = (node) => { while (node.firstChild) node.removeChild(node.firstChild); return node; };
const headColour = (head) => `var(--head${head})`;
const fixed = (value, digits) => (Math.abs(value) < 0.5 * 10 ** -digits ? 0 : value).toFixed(digits).replace("-", "−");

// A colour of the page as red, green, blue, for a canvas.
function resolved(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
}

// A matrix of probabilities as pixels; darkness is opacity, so that it suits light and dark pages.
function paint(canvas, rows, columns, colour, probability) {
  canvas.width = columns; canvas.height = rows;
  const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
  for (let i = 0, at = 0; i < rows; i++) {
    const probs = probability(i);
    for (let j = 0; j < columns; j++, at += 4) {
      image.data[at] = colour[0]; image.data[at + 1] = colour[1]; image.data[at + 2] = colour[2];
      image.data[at + 3] = Math.round(255 * darkness(probs(j)));
    }
  }
  context.putImageData(image, 0, 0);
}

// Arrow keys move among things of which only one is in the tab order.
function roving(items, columns) {
  items.forEach((item, place) => {
    item.addEventListener("keydown", (event) => {
      const across = columns === 1 ? {} : { ArrowRight: 1, ArrowLeft: -1 };
      const next = items[place + { ...across, ArrowDown: columns, ArrowUp: -columns }[event.key]];
      if (!next) return;
      event.preventDefault();
      item.setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
  });
}
