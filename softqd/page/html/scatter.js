// The population in two axes: drag to select, click to inspect, arrow keys to walk.

const SCATTER = { top: 12, right: 14, bottom: 40, left: 56 };

function scatterView(model) {
  const canvas = el("canvas");
  const svg = d3.create("svg").attr("class", "over");
  const tip = el("div", { class: "tip", hidden: true });
  const plot = el("div", { class: "plot scatter", id: "scatter", tabindex: 0, role: "application",
    "aria-label": "Population. Arrow keys go to the next solution, Home to the best, Escape clears the selection." },
    canvas, svg.node(), tip);
  const view = { model, canvas, svg, tip, plot };
  const again = drawn(plot, (width) => layoutScatter(view, width));
  const redraw = () => view.context && drawPoints(view);
  model.on.on("axes.scatter", again).on("select.scatter", () => {
    redraw();
    if (!model.rectangle && view.brushes) view.brushes.call(view.brush.move, null);
  });
  model.on.on("hue.scatter", () => {
    redraw();
    view.bar.replaceChildren(hueBar(model));
  });
  model.on.on("inspect.scatter", () => markPoints(view)).on("hover.scatter", () => markPoints(view));
  plot.addEventListener("keydown", (event) => walk(view, event));
  view.bar = el("div", { class: "huebar" }, hueBar(model));
  onTheme(view.bar, () => view.bar.replaceChildren(hueBar(model)));
  return card("Population", { id: "population" }, axisChoices(model), plot, view.bar, selectionBar(model));
}

function axisChoices(model) {
  const options = model.axes.map((axis, i) => [i, axis.name]);
  const pick = (key) => (value) => model.setAxes(...(key === "x" ? [+value, model.y] : [model.x, +value]));
  const hue = (value) => {
    model.hue = +value;
    model.on.call("hue");
  };
  return el("div", { class: "bar" },
    choice("x", options, model.x, pick("x"), "axis-x"),
    choice("y", options, model.y, pick("y"), "axis-y"),
    choice("color", options, model.hue, hue, "hue"));
}

function hueBar(model) {
  const { name, values } = model.axes[model.hue];
  const [low, high] = d3.extent(values);
  const strip = el("span", { class: "strip", role: "img", "aria-label": `colors from ${number(low, 4)} to ${number(high, 4)}` });
  strip.style.background = `linear-gradient(90deg, ${d3.range(11).map((i) => ramp(i / 10)).join(",")})`;
  return el("div", { class: "hues" }, el("span", {}, `${name} ${number(low, 4)}`), strip, el("span", {}, number(high, 4)));
}

function layoutScatter(view, width) {
  const { model, svg, canvas, plot } = view;
  const height = Math.round(Math.min(560, Math.max(300, width * 0.78)));
  const [x, y] = [model.axes[model.x], model.axes[model.y]];
  const sides = [padded(x), padded(y)];
  view.x = d3.scaleLinear(sides[0], [SCATTER.left, width - SCATTER.right]);
  view.y = d3.scaleLinear(sides[1], [height - SCATTER.bottom, SCATTER.top]);
  view.width = width;
  view.height = height;
  view.context = sized(canvas, width, height);
  frame(svg, width, height, view.x, view.y, [x.name, y.name], SCATTER);
  view.brushes = svg.append("g").attr("class", "brush");
  view.marks = svg.append("g").attr("class", "marks");
  const places = (i) => [view.x(x.values[i]), view.y(y.values[i])];
  view.place = places;
  view.nearest = null; // made when the pointer first comes
  addBrush(view);
  svg.on("pointermove", (event) => model.hover(pointed(view, d3.pointer(event, svg.node()))));
  svg.on("pointerleave", () => model.hover(-1));
  svg.on("click", (event) => {
    const found = pointed(view, d3.pointer(event, svg.node()));
    if (found >= 0) model.inspect(found);
    plot.focus({ preventScroll: true });
  });
  drawPoints(view);
  markPoints(view);
}

function padded({ domain: [low, high] }) {
  const margin = 0.02 * (high - low);
  return [low - margin, high + margin];
}

function addBrush(view) {
  const { model } = view;
  const ends = [[SCATTER.left, SCATTER.top], [view.width - SCATTER.right, view.height - SCATTER.bottom]];
  // On touch screens, a finger scrolls the page.
  view.brush = d3.brush().extent(ends).touchable(false).on("brush end", ({ selection, sourceEvent }) => {
    if (!sourceEvent) return;
    model.rectangle = selection && {
      x: model.x, y: model.y,
      xRange: [selection[0][0], selection[1][0]].map(view.x.invert),
      yRange: [selection[1][1], selection[0][1]].map(view.y.invert),
    };
    refilter(model);
  });
  view.brushes.call(view.brush);
  const box = model.rectangle;
  if (box) {
    const corners = [0, 1].map((k) => [view.x(box.xRange[k]), view.y(box.yRange[1 - k])]);
    view.brushes.call(view.brush.move, corners);
  }
}

function pointed(view, [left, top]) {
  view.nearest ??= d3.Delaunay.from(view.model.order, (i) => view.place(i)[0], (i) => view.place(i)[1]);
  const found = view.model.order[view.nearest.find(left, top)];
  if (!(found >= 0)) return -1;
  const [x, y] = view.place(found);
  return Math.hypot(x - left, y - top) < 28 ? found : -1;
}

function drawPoints(view) {
  const { model, context, width, height } = view;
  const [x, y] = [model.axes[model.x].values, model.axes[model.y].values];
  const radius = Math.max(1.6, Math.min(4, 90 / Math.sqrt(model.run.num + 200)));
  const hue = hueOf(model);
  const dot = (i, size, fill) => {
    context.fillStyle = fill;
    context.beginPath();
    context.arc(view.x(x[i]), view.y(y[i]), size, 0, 7);
    context.fill();
  };
  context.clearRect(0, 0, width, height);
  if (model.isFiltered) {
    const faint = style("faint");
    for (const i of model.order) if (!model.selected[i]) dot(i, 0.8 * radius, faint);
  }
  for (const i of model.order) if (model.selected[i]) dot(i, radius, hue(i));
}

function markPoints(view) {
  const { model, marks, tip } = view;
  if (!marks) return;
  const rings = [];
  if (model.current >= 0) {
    for (const [, i] of model.neighbors) rings.push({ i, kind: "near" });
    rings.push({ i: model.current, kind: "current" });
  }
  if (model.hovered >= 0) rings.push({ i: model.hovered, kind: "hovered" });
  marks.selectAll("circle").data(rings).join("circle")
    .attr("class", (r) => r.kind).attr("r", (r) => (r.kind === "near" ? 5 : 7.5))
    .attr("cx", (r) => view.place(r.i)[0]).attr("cy", (r) => view.place(r.i)[1]);
  showTip(view, tip, model.hovered);
}

function showTip(view, tip, i) {
  const { model } = view;
  tip.hidden = i < 0;
  if (i < 0) return;
  const source = pictureOf(model.run, i);
  const shown = [...new Set([model.dim, model.x, model.y])];
  tip.replaceChildren(
    ...(source ? [el("img", { src: source, alt: "" })] : []),
    el("div", {}, el("b", {}, `solution ${i}`), ...shown.map((k) => el("div", {}, `${model.axes[k].name} ${number(model.axes[k].values[i], 5)}`))));
  const [left, top] = view.place(i);
  tip.style.left = `${Math.max(4, Math.min(left + 14, view.width - tip.offsetWidth - 4))}px`;
  tip.style.top = `${top + 14 + tip.offsetHeight > view.height ? top - tip.offsetHeight - 12 : top + 14}px`;
}

// Arrow keys: the nearest solution that lies more in that direction than beside it.
function walk(view, event) {
  const { model } = view;
  const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const way = ways[event.key];
  if (event.key === "Escape") model.clear();
  else if (event.key === "Home") model.inspect(model.order.at(-1));
  else if (way) model.inspect(nextIn(view, way));
  else return;
  event.preventDefault();
}

function nextIn(view, [right, down]) {
  const { model } = view;
  const [left, top] = view.place(model.current);
  let [best, found] = [Infinity, model.current];
  for (let i = 0; i < model.run.num; i++) {
    if (i === model.current || !model.selected[i]) continue;
    const [x, y] = view.place(i);
    const ahead = (x - left) * right + (y - top) * down;
    const aside = Math.abs((x - left) * down) + Math.abs((y - top) * right);
    const cost = ahead + 2 * aside;
    if (ahead > 0.5 && aside <= ahead && cost < best) [best, found] = [cost, i];
  }
  return found;
}

// How many are selected, and ranges by number: what dragging does, with keys.
function selectionBar(model) {
  const text = el("output", { id: "selection", "aria-live": "polite" });
  const clear = el("button", { type: "button", id: "clear", class: "quiet", onclick: () => model.clear() }, "Clear");
  const refresh = () => {
    const { quality, selected, run } = model;
    const chosen = Array.from(quality.values).filter((_, i) => selected[i]);
    const some = chosen.length ? `: quality ${number(d3.mean(chosen), 5)} on average, best ${number(d3.max(chosen), 5)}` : "";
    text.textContent = `${number(model.count)} of ${number(run.num)} solutions${model.isFiltered ? " selected" : ""}${some}`;
    clear.hidden = !model.isFiltered;
  };
  model.on.on("select.bar", refresh);
  refresh();
  return el("div", {}, el("div", { class: "bar" }, text, clear), rangeForm(model));
}

function rangeForm(model) {
  const axis = el("select", { id: "range-axis", "aria-label": "axis" }, ...model.axes.map((a, i) => el("option", { value: i, selected: i === model.dim }, a.name)));
  const bound = (id, label) => el("input", { id, type: "number", step: "any", size: 8, "aria-label": label, placeholder: label });
  const [low, high] = [bound("range-low", "from"), bound("range-high", "to")];
  const form = el("form", { class: "bar", onsubmit: (event) => {
    event.preventDefault();
    const range = [low.value === "" ? -Infinity : +low.value, high.value === "" ? Infinity : +high.value];
    model.setFilter(+axis.value, range);
  } }, axis, low, high, el("button", { type: "submit" }, "Select"));
  return el("details", { class: "ranges" }, el("summary", {}, "Select by numbers"), form);
}
