// What all parts of the page share: elements, numbers, colors, data.
// Text from the data only ever becomes text nodes, never markup.

const PAGE = JSON.parse(document.getElementById("data").textContent);

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child != null));
  return node;
}

// --- numbers ---------------------------------------------------------------------

function decode(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

function number(value, digits = 6) {
  if (value == null || Number.isNaN(value)) return "-";
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(digits - 2);
  const rounded = Number(value.toPrecision(digits));
  return size >= 1e4 ? rounded.toLocaleString("en-US") : String(rounded);
}

function plusMinus(value, stderr, digits) {
  const error = stderr == null ? "" : ` \u00b1 ${number(stderr, 2)}`;
  return number(value, digits) + error;
}

function shortened(text, room) {
  return text.length > room ? `${text.slice(0, Math.max(3, room - 1))}\u2026` : text;
}

function words(name) {
  const known = { mean_quality: "mean quality", max_quality: "best quality", seconds: "seconds (s)" };
  return known[name] || name.replaceAll("_", " ");
}

// --- colors ----------------------------------------------------------------------

// Okabe and Ito's, told apart by color-blind eyes; a little lighter on dark ground.
const color = (i) => `var(--series-${i % 8})`;

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// Viridis, without the end that would drown in the background.
function ramp(share) {
  const [low, high] = isDark() ? [0.16, 1] : [0, 0.94];
  return d3.interpolateViridis(low + (high - low) * Math.min(1, Math.max(0, share)));
}

let themeListeners = [];
const onTheme = (host, listener) => themeListeners.push({ host, listener });

function tellTheme() {
  themeListeners = themeListeners.filter(({ host }) => host.isConnected);
  themeListeners.forEach(({ listener }) => listener());
}

function themeButton() {
  const label = () => (isDark() ? "Light mode" : "Dark mode");
  const button = el("button", { id: "theme", type: "button", class: "quiet" }, label());
  const refresh = () => {
    button.textContent = label();
    tellTheme();
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    refresh();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
  return button;
}

// --- parts of a page -------------------------------------------------------------

function card(title, attributes = {}, ...children) {
  const head = title ? [el("h2", {}, title)] : [];
  return el("section", { class: "card", ...attributes }, ...head, ...children);
}

function choice(label, options, chosen, onchange, id) {
  const select = el("select", { id, onchange: () => onchange(select.value) });
  for (const [value, text] of options) {
    select.append(el("option", { value, selected: String(value) === String(chosen) }, text));
  }
  return el("label", { class: "choice" }, `${label} `, select);
}

function table(rows, attributes = {}) {
  const line = ([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value));
  return el("table", attributes, el("tbody", {}, ...rows.map(line)));
}

// A canvas as sharp as the screen, and its context in CSS pixels.
function sized(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  return context;
}

// Draw now and whenever the width or the theme changes.
function drawn(host, draw) {
  let width = 0;
  const again = () => {
    if (host.clientWidth) draw(host.clientWidth);
  };
  new ResizeObserver(() => {
    if (host.clientWidth === width) return;
    width = host.clientWidth;
    again();
  }).observe(host);
  onTheme(host, again);
  return again;
}

// --- pictures --------------------------------------------------------------------

// Parsed when first looked at; decoded by the browser when they come into view.
const parsedPictures = new Map();

function pictureOf(run, member) {
  const place = run.places.get(member);
  if (place === undefined) return null;
  if (!parsedPictures.has(run.index)) {
    const text = document.getElementById(`pictures-${run.index}`).textContent;
    parsedPictures.set(run.index, JSON.parse(text));
  }
  return `data:image/jpeg;base64,${parsedPictures.get(run.index)[place]}`;
}
