// Parallel coordinates: a line per solution, drag along an axis to select.
// Lines are drawn a few at a time, so that a selection never waits for them.

const PARALLEL = { top: 34, bottom: 14, side: 34, height: 270, least: 74 };
const SLICE = 250; // lines before the browser has its turn

function parallelView(model) {
  const layers = { back: { canvas: el("canvas") }, front: { canvas: el("canvas", { class: "over" }) } };
  const svg = d3.create("svg").attr("class", "over");
  const plot = el("div", { class: "plot", id: "parallel" }, layers.back.canvas, layers.front.canvas, svg.node());
  const host = el("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Parallel coordinates; scrolls sideways" }, plot);
  // In mixed order, so that the first lines already show what the rest will be like.
  const mixed = d3.shuffler(d3.randomLcg(0))([...model.order]);
  const view = { model, svg, plot, mixed, ...layers };
  drawn(host, (width) => layoutParallel(view, width));
  const redraw = () => view.width && drawLines(view);
  model.on.on("hue.parallel", redraw).on("select.parallel", () => {
    redraw();
    showRanges(view);
  });
  model.on.on("inspect.parallel", () => markLine(view)).on("hover.parallel", () => markLine(view));
  const isTouch = matchMedia("(pointer: coarse)").matches; // there, a finger scrolls
  const how = isTouch ? "Ranges are set under 'Select by numbers'." : "Drag along an axis to select a range of it; click it to let go.";
  const hint = el("p", { class: "muted" }, `One line per solution. ${how}`);
  return card("All behaviors at once", { id: "behaviors" }, hint, host);
}

function layoutParallel(view, room) {
  const { model, svg, plot } = view;
  const num = model.axes.length;
  const width = Math.max(room, PARALLEL.least * num);
  const { height, top, bottom, side } = PARALLEL;
  plot.style.width = `${width}px`;
  view.x = d3.scalePoint(d3.range(num), [side + 14, width - side]);
  view.y = model.axes.map((axis) => d3.scaleLinear(padded(axis), [height - bottom, top]));
  for (const layer of [view.back, view.front]) layer.context = sized(layer.canvas, width, height);
  Object.assign(view, { width, height });
  plot.style.height = `${height}px`;
  svg.selectAll("*").remove();
  svg.attr("width", width).attr("height", height);
  view.mark = svg.append("path").attr("class", "marked");
  const step = num > 1 ? view.x.step() : width;
  const groups = svg.selectAll("g.axis").data(d3.range(num)).join("g").attr("class", "axis");
  groups.attr("transform", (k) => `translate(${view.x(k)},0)`);
  groups.each(function (k) {
    d3.select(this).call(axisOn(d3.axisLeft(view.y[k]), 5));
  });
  const names = groups.append("text").attr("class", "name").attr("y", 18).attr("text-anchor", "middle");
  names.text((k) => shortened(model.axes[k].name, step / 6.5)).append("title").text((k) => model.axes[k].name);
  view.brush = d3.brushY().touchable(false).extent([[-12, top], [12, height - bottom]]);
  view.brush.on("brush end", function ({ selection, sourceEvent }, k) {
    if (!sourceEvent) return;
    model.setFilter(k, selection && [view.y[k].invert(selection[1]), view.y[k].invert(selection[0])]);
  });
  view.brushes = groups.append("g").attr("class", "brush").call(view.brush);
  drawGround(view);
  drawLines(view);
  markLine(view);
  showRanges(view);
}

// Ranges that were set elsewhere appear as brushes, too.
function showRanges(view) {
  if (!view.brushes) return;
  const { model } = view;
  view.brushes.each(function (k) {
    const range = model.filters.get(k);
    const drawn = d3.brushSelection(this);
    const [low, high] = view.y[k].domain();
    const within = (value) => view.y[k](Math.max(low, Math.min(high, value)));
    const wanted = range && [within(range[1]), within(range[0])];
    const isSame = wanted ? drawn && Math.abs(drawn[0] - wanted[0]) + Math.abs(drawn[1] - wanted[1]) < 1 : !drawn;
    if (!isSame) d3.select(this).call(view.brush.move, wanted || null);
  });
}

function traceLine(view, context, i) {
  view.y.forEach((y, k) => {
    const place = [view.x(k), y(view.model.axes[k].values[i])];
    if (k) context.lineTo(...place);
    else context.moveTo(...place);
  });
}

function drawLines(view) {
  const { model, front, back } = view;
  const hue = hueOf(model);
  back.canvas.hidden = !model.isFiltered;
  trickle(view, front, view.mixed.filter((i) => model.selected[i]), hue, 1);
}

// All lines faintly, once: the ground on which a selection stands out.
function drawGround(view) {
  const faint = style("faint");
  trickle(view, view.back, view.mixed, () => faint, 0.5);
}

// While one selection is being drawn, a new one takes its place at the next slice.
function trickle(view, layer, lines, hue, strength) {
  layer.task = { lines, hue, next: 0, alpha: strength * Math.max(0.08, Math.min(0.8, 13 / Math.sqrt(lines.length + 1))) };
  if (layer.isDrawing) return;
  layer.isDrawing = true;
  const slice = () => {
    drawSlice(view, layer);
    layer.isDrawing = layer.task.next < layer.task.lines.length;
    if (layer.isDrawing) requestAnimationFrame(slice);
  };
  // After the frame that shows the selection in the scatter plot.
  requestAnimationFrame(() => requestAnimationFrame(slice));
}

function drawSlice(view, { context, task }) {
  if (!task.next) context.clearRect(0, 0, view.width, view.height);
  context.globalAlpha = task.alpha;
  const end = Math.min(task.lines.length, task.next + SLICE);
  for (; task.next < end; task.next++) {
    const i = task.lines[task.next];
    context.strokeStyle = task.hue(i);
    context.beginPath();
    traceLine(view, context, i);
    context.stroke();
  }
}

function markLine(view) {
  const { model } = view;
  if (!view.mark) return;
  const i = model.hovered >= 0 ? model.hovered : model.current;
  if (i < 0) return;
  const path = d3.path();
  traceLine(view, path, i);
  view.mark.attr("d", String(path));
}
