// One population, seen in several ways that share what is selected and inspected.

function makeModel(run) {
  const behavior = decode(run.behavior);
  const dim = run.names.length;
  const column = (k) => Float32Array.from({ length: run.num }, (_, i) => behavior[i * dim + k]);
  const axes = run.names.map((name, k) => axisOf(name, column(k), run.low[k], run.high[k]));
  axes.push(axisOf("quality", decode(run.quality), null, null));
  const model = {
    run, axes, dim,
    quality: axes[dim],
    x: 0, y: dim > 1 ? 1 : dim, hue: dim,
    filters: new Map(), // axis to [low, high]
    rectangle: null, // { x, y: axes, and their ranges }
    selected: new Uint8Array(run.num).fill(1),
    count: run.num,
    current: -1,
    neighbors: [], // of the current one: [distance, member]
    hovered: -1,
    order: d3.range(run.num).sort((a, b) => axes[dim].values[a] - axes[dim].values[b]),
    on: d3.dispatch("select", "inspect", "hover", "axes", "hue"),
  };
  model.inspect = (i) => {
    model.current = i;
    model.neighbors = neighborsOf(model, i, 5);
    model.on.call("inspect");
  };
  model.hover = (i) => {
    if (i === model.hovered) return;
    model.hovered = i;
    model.on.call("hover");
  };
  model.setAxes = (x, y) => {
    const hadRectangle = model.rectangle !== null;
    Object.assign(model, { x, y, rectangle: null });
    if (hadRectangle) refilter(model);
    model.on.call("axes");
  };
  model.setFilter = (axis, range) => {
    if (range) model.filters.set(axis, range);
    else model.filters.delete(axis);
    refilter(model);
  };
  model.clear = () => {
    model.filters.clear();
    model.rectangle = null;
    refilter(model);
  };
  return model;
}

function axisOf(name, values, low, high) {
  const [least, most] = values.length ? d3.extent(values) : [0, 1];
  let domain = [low ?? least, high ?? most];
  if (!(domain[1] > domain[0])) domain = [domain[0] - 0.5, domain[0] + 0.5];
  return { name, values, domain, isBounded: low != null && high != null };
}

// A solution is selected where every range holds it.
function refilter(model) {
  const began = performance.now();
  const ranges = [...model.filters];
  const box = model.rectangle;
  if (box) ranges.push([box.x, box.xRange], [box.y, box.yRange]);
  model.selected.fill(1);
  for (const [axis, [low, high]] of ranges) {
    const values = model.axes[axis].values;
    for (let i = 0; i < values.length; i++) {
      if (!(values[i] >= low && values[i] <= high)) model.selected[i] = 0;
    }
  }
  model.count = model.selected.reduce((a, b) => a + b, 0);
  model.isFiltered = ranges.length > 0;
  model.on.call("select");
  model.milliseconds = performance.now() - began;
}

// A solution's color, from a table: making one for each would take most of the time.
function hueOf(model) {
  const { values } = model.axes[model.hue];
  const [low, high] = d3.extent(values);
  const shades = d3.range(128).map((k) => ramp(k / 127));
  return (i) => shades[Math.round((127 * (values[i] - low)) / (high - low || 1))];
}

// Nearest others by behavior, sides of the space scaled to 1.
function neighborsOf(model, member, num) {
  const axes = model.axes.slice(0, model.dim);
  const squares = new Float64Array(model.run.num);
  for (const { values, domain } of axes) {
    const span = domain[1] - domain[0];
    for (let i = 0; i < squares.length; i++) squares[i] += ((values[i] - values[member]) / span) ** 2;
  }
  const found = [...squares].map((square, i) => [Math.sqrt(square), i]);
  found.splice(member, 1);
  if (found.length <= num) return found.sort((a, b) => a[0] - b[0]);
  return d3.quickselect(found, num, 0, found.length - 1, (a, b) => a[0] - b[0])
    .slice(0, num).sort((a, b) => a[0] - b[0]);
}

function explorer(run) {
  run.places = new Map(run.members.map((member, place) => [member, place]));
  const model = makeModel(run);
  const host = el("div", { class: "explorer" });
  window.softqd = { model }; // for the curious, in the browser's console
  if (!run.num) {
    host.append(card("Population", {}, el("p", {}, "The population is empty.")));
    return host;
  }
  const views = [
    el("div", { class: "pair" }, scatterView(model), detailsView(model)),
    parallelView(model),
    el("div", { class: "pair even" }, valueMapView(model), historyView(run)),
  ];
  if (run.members.length) views.push(galleryView(model));
  host.append(...views);
  model.inspect(model.order.at(-1));
  return host;
}

function historyView(run) {
  const columns = Object.keys(run.history);
  const times = ["evaluations", "iteration", "seconds"].filter((name) => columns.includes(name));
  const skipped = new Set([...times, "gradient_evaluations", "vector_jacobian_products", "mean_quality", "max_quality"]);
  const others = columns.filter((name) => !skipped.has(name));
  const plot = el("div");
  const state = { x: times[0], y: "quality" };
  const draw = () => {
    const names = state.y === "quality" ? ["mean_quality", "max_quality"] : [state.y];
    const series = names.map((name, i) => ({
      name: words(name), color: color(i), dash: i ? "5 3" : null, x: run.history[state.x], y: run.history[name],
    }));
    lineChart(plot, series, [words(state.x), words(state.y)], 340);
  };
  const set = (key) => (value) => {
    state[key] = value;
    draw();
  };
  const section = card("History", { id: "history" }, el("div", { class: "bar" },
    choice("show", [["quality", "quality, mean and best"], ...others.map((n) => [n, words(n)])], state.y, set("y"), "history-y"),
    choice("against", times.map((n) => [n, words(n)]), state.x, set("x"), "history-x")), plot);
  draw();
  return section;
}
