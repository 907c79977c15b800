// The behavior value over the two axes of the scatter plot, the others maximized over:
// at every point, the light of the solution that is brightest there.

const MAP_SIDE = 180; // points along each side
const REACH = 5; // widths beyond which a light is below 4e-6 of its quality

// value[row * side + column] at (x, y) of column and row, ends of the domains included.
function valueMap(model, sigma, side = MAP_SIDE) {
  const [x, y] = [model.axes[model.x], model.axes[model.y]];
  const value = new Float32Array(side * side);
  const stepOf = ({ domain }) => (domain[1] - domain[0]) / (side - 1);
  const steps = [stepOf(x), stepOf(y)];
  const light = (axis, step, at) => {
    const place = (at - axis.domain[0]) / step;
    const first = Math.max(0, Math.ceil(place - (REACH * sigma) / step));
    const last = Math.min(side - 1, Math.floor(place + (REACH * sigma) / step));
    const factors = new Float64Array(Math.max(0, last - first + 1));
    for (let k = 0; k < factors.length; k++) factors[k] = Math.exp(-(((first + k - place) * step) ** 2) / (2 * sigma * sigma));
    return [first, factors];
  };
  for (let i = 0; i < model.run.num; i++) {
    const quality = model.quality.values[i] - model.run.level;
    if (!(quality > 0)) continue;
    const [left, across] = light(x, steps[0], x.values[i]);
    const [low, up] = light(y, steps[1], y.values[i]);
    for (let r = 0; r < up.length; r++) {
      const bright = quality * up[r];
      const start = (low + r) * side + left;
      for (let c = 0; c < across.length; c++) {
        const shine = bright * across[c];
        if (shine > value[start + c]) value[start + c] = shine;
      }
    }
  }
  return value;
}

function valueMapView(model) {
  const canvas = el("canvas");
  const svg = d3.create("svg").attr("class", "over");
  const plot = el("div", { class: "plot", id: "map", role: "img", "aria-label": "Behavior value" }, canvas, svg.node());
  const readout = el("div", { class: "readout" });
  const slider = el("input", { id: "sigma", type: "range", min: 1, max: 15, step: 0.5, value: 3 });
  const width = el("output", { class: "muted" });
  const view = { model, canvas, svg, plot, readout, slider, width };
  const again = drawn(plot, (room) => layoutMap(view, room));
  slider.addEventListener("input", again);
  model.on.on("axes.map", again);
  const about = el("p", { class: "muted" }, model.dim > 2
    ? "How brightly the population lights these two behaviors, at the best of all others."
    : "How brightly the population lights the behavior space.", model.run.level
    ? ` Quality is measured from ${number(model.run.level, 4)}.` : "");
  const bar = el("div", { class: "bar" }, el("label", { class: "choice" }, "width of a light ", slider), width);
  return card("Behavior value", { id: "value" }, about, bar, plot, readout);
}

function mapSigma(model, percent) {
  const side = (k) => model.axes[k].domain[1] - model.axes[k].domain[0];
  return (percent / 100) * Math.max(side(model.x), side(model.y));
}

function layoutMap(view, width) {
  const { model, svg, canvas, readout } = view;
  const isMap = model.x < model.dim && model.y < model.dim && model.x !== model.y;
  view.plot.hidden = !isMap;
  readout.textContent = isMap ? "" : "Choose two different behaviors as x and y to see the map.";
  if (!isMap) return;
  const height = Math.round(Math.min(420, Math.max(260, width * 0.75)));
  const [x, y] = [model.axes[model.x], model.axes[model.y]];
  const sigma = mapSigma(model, +view.slider.value);
  view.width.textContent = `sigma ${number(sigma, 3)}`;
  const value = valueMap(model, sigma);
  const brightest = d3.max(model.quality.values) - model.run.level;
  const best = brightest > 0 ? brightest : 1;
  const across = d3.scaleLinear(x.domain, [SCATTER.left, width - SCATTER.right]);
  const up = d3.scaleLinear(y.domain, [height - SCATTER.bottom, SCATTER.top]);
  const context = sized(canvas, width, height);
  context.imageSmoothingEnabled = true;
  context.drawImage(lightImage(value, best), across.range()[0], up.range()[1],
    across.range()[1] - across.range()[0], up.range()[0] - up.range()[1]);
  frame(svg, width, height, across, up, [x.name, y.name], SCATTER);
  svg.on("pointermove", (event) => {
    const [left, top] = d3.pointer(event);
    const [c, r] = [[across.invert(left), x], [up.invert(top), y]].map(([at, axis]) =>
      Math.round(((at - axis.domain[0]) / (axis.domain[1] - axis.domain[0])) * (MAP_SIDE - 1)));
    const isInside = Math.min(c, r) >= 0 && Math.max(c, r) < MAP_SIDE;
    readout.textContent = isInside ? `value ${number(value[r * MAP_SIDE + c], 5)} of at most ${number(best, 5)}` : "";
  });
}

function lightImage(value, best) {
  const image = new ImageData(MAP_SIDE, MAP_SIDE);
  const shades = d3.range(256).map((k) => d3.rgb(d3.interpolateInferno(k / 255)));
  for (let r = 0; r < MAP_SIDE; r++) {
    for (let c = 0; c < MAP_SIDE; c++) {
      const shade = shades[Math.min(255, Math.round((255 * value[r * MAP_SIDE + c]) / best))];
      const place = 4 * ((MAP_SIDE - 1 - r) * MAP_SIDE + c); // y upwards
      image.data[place] = shade.r;
      image.data[place + 1] = shade.g;
      image.data[place + 2] = shade.b;
      image.data[place + 3] = 255;
    }
  }
  const small = el("canvas", { width: MAP_SIDE, height: MAP_SIDE });
  small.getContext("2d").putImageData(image, 0, 0);
  return small;
}
