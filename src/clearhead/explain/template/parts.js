// Element helpers. Texts of the trace are inserted only with textContent and setAttribute.
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

function make(parent, tag, attributes, text) {
  const element = parent.namespaceURI === SVG || tag === "svg"
    ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  parent.appendChild(element);
  return element;
}

const empty = (node) => { while (node.firstChild) node.removeChild(node.firstChild); return node; };
const headColor = (head) => `var(--head${head})`;
const formatNumber = (value, digits) => (Math.abs(value) < 0.5 * 10 ** -digits ? 0 : value).toFixed(digits).replace("-", "−");

// Read a CSS color as red, green and blue, for a canvas.
function readColor(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
}

// Paint a matrix of probabilities as pixels; opacity encodes probability, which suits light and dark pages.
function paintMatrix(canvas, rows, columns, color, probability) {
  canvas.width = columns; canvas.height = rows;
  const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
  for (let i = 0, at = 0; i < rows; i++) {
    const probs = probability(i);
    for (let j = 0; j < columns; j++, at += 4) {
      image.data[at] = color[0]; image.data[at + 1] = color[1]; image.data[at + 2] = color[2];
      image.data[at + 3] = Math.round(255 * probOpacity(probs(j)));
    }
  }
  context.putImageData(image, 0, 0);
}

// Move between items with arrow keys; only one of them is in the tab order (roving tabindex).
function addArrowKeys(items, columns) {
  items.forEach((item, index) => {
    item.addEventListener("keydown", (event) => {
      const across = columns === 1 ? {} : { ArrowRight: 1, ArrowLeft: -1 };
      const next = items[index + { ...across, ArrowDown: columns, ArrowUp: -columns }[event.key]];
      if (!next) return;
      event.preventDefault();
      item.setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
  });
}
