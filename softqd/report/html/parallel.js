// Parallel coordinates: a line per solution, drag along an axis to select.
// Lines are drawn a few at a time, so that a selection never waits for them.

const PARALLEL = { top: 34, bottom: 14, side: 34, height: 270, least: 74 };
const SLICE = 14; // milliseconds of drawing before the browser has its turn

function parallelView(model) {
  const canvas = el("canvas");
  const svg = d3.create("svg").attr("class", "over");
  const plot = el("div", { class: "plot", id: "parallel" }, canvas, svg.node());
  const host = el("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Parallel coordinates; scrolls sideways" }, plot);
  const view = { model, canvas, svg, plot, job: 0 };
  const again = drawn(host, (width) => layoutParallel(view, width));
  const redraw = () => view.context && drawLines(view);
  model.on.on("hue.parallel", redraw).on("select.parallel", () => {
    redraw();
    showRanges(view);
  });
  model.on.on("inspect.parallel", () => markLine(view)).on("hover.parallel", () => markLine(view));
  const isTouch = matchMedia("(pointer: coarse)").matches; // there, a finger scrolls
  const how = isTouch ? "Ranges are set under 'Select by numbers'." : "Drag along an axis to select a range of it; click it to let go.";
  const hint = el("p", { class: "muted" }, `One line per solution. ${how}`);
  view.again = again;
  return card("All behaviors at once", { id: "behaviors" }, hint, host);
}

function layoutParallel(view, room) {
  const { model, svg, canvas, plot } = view;
  const num = model.axes.length;
  const width = Math.max(room, PARALLEL.least * num);
  const { height, top, bottom, side } = PARALLEL;
  plot.style.width = `${width}px`;
  view.x = d3.scalePoint(d3.range(num), [side + 14, width - side]);
  view.y = model.axes.map((axis) => d3.scaleLinear(padded(axis), [height - bottom, top]));
  view.context = sized(canvas, width, height);
  Object.assign(view, { width, height });
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
  const { model, context, width, height } = view;
  const hue = hueOf(model);
  const faint = style("faint");
  const job = ++view.job;
  const chosen = model.order.filter((i) => model.selected[i]);
  const others = model.isFiltered ? model.order.filter((i) => !model.selected[i]) : [];
  const lines = [...others, ...chosen];
  const clarity = (num) => Math.max(0.08, Math.min(0.8, 13 / Math.sqrt(num + 1)));
  const [clear, pale] = [clarity(chosen.length), 0.5 * clarity(others.length)];
  context.clearRect(0, 0, width, height);
  context.lineWidth = 1;
  let next = 0;
  const slice = () => {
    if (job !== view.job) return; // another selection came
    const end = performance.now() + SLICE;
    while (next < lines.length && performance.now() < end) {
      const isChosen = next >= others.length;
      const i = lines[next++];
      context.globalAlpha = isChosen ? clear : pale;
      context.strokeStyle = isChosen ? hue(i) : faint;
      context.beginPath();
      traceLine(view, context, i);
      context.stroke();
    }
    if (next < lines.length) requestAnimationFrame(slice);
  };
  requestAnimationFrame(slice);
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
