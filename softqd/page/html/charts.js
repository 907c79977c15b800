// Curves with bands, and strips of dots. Both take plain numbers.

const MARGIN = { top: 10, right: 14, bottom: 38, left: 58 };

// Large numbers with k and M, others as they are.
function axisOn(axis, ticks) {
  const isLarge = d3.max(axis.scale().domain(), Math.abs) >= 1e4;
  return isLarge ? axis.ticks(ticks, "~s") : axis.ticks(ticks);
}

// Axes with their names; returns the group to draw in.
function frame(svg, width, height, x, y, names, margin = MARGIN) {
  svg.selectAll("*").remove();
  svg.attr("width", width).attr("height", height).attr("viewBox", `0 0 ${width} ${height}`);
  const ticks = Math.max(3, Math.min(8, Math.floor((width - margin.left) / 80)));
  const below = svg.append("g").attr("class", "axis");
  below.attr("transform", `translate(0,${height - margin.bottom})`).call(axisOn(d3.axisBottom(x), ticks));
  const beside = svg.append("g").attr("class", "axis");
  beside.attr("transform", `translate(${margin.left},0)`);
  if (y) beside.call(axisOn(d3.axisLeft(y), 5));
  const label = (text, left, top, turn) =>
    svg.append("text").attr("class", "name").attr("text-anchor", "middle")
      .attr("transform", `translate(${left},${top})${turn ? " rotate(-90)" : ""}`).text(text);
  label(names[0], (margin.left + width - margin.right) / 2, height - 5, false);
  if (names[1]) label(names[1], 13, (margin.top + height - margin.bottom) / 2, true);
  return svg.append("g");
}

function spread(values, share = 0.04) {
  const [low, high] = d3.extent(values);
  const margin = share * (high - low) || Math.abs(high) * share || 1;
  return [low - margin, high + margin];
}

// series: [{ name, color, x, y, stderr? }], missing values null.
function lineChart(host, series, names, height = 260) {
  const svg = d3.create("svg").attr("role", "img");
  svg.attr("aria-label", `${names[1]} against ${names[0]}: ${series.map((s) => s.name).join(", ")}`);
  const readout = el("div", { class: "readout", "aria-live": "off" });
  host.replaceChildren(legend(series), el("div", { class: "plot" }, svg.node()), readout);
  const points = series.map((s) =>
    s.x.map((x, i) => ({ x, y: s.y[i], e: s.stderr ? s.stderr[i] || 0 : 0 })).filter((p) => p.x != null && p.y != null));
  if (!points.flat().length) {
    host.replaceChildren(el("p", { class: "muted" }, "There are no values to draw."));
    return;
  }
  const draw = (width) => {
    const x = d3.scaleLinear(d3.extent(points.flat(), (p) => p.x), [MARGIN.left, width - MARGIN.right]);
    const ends = points.flat().flatMap((p) => [p.y - p.e, p.y + p.e]);
    const y = d3.scaleLinear(spread(ends), [height - MARGIN.bottom, MARGIN.top]);
    const group = frame(svg, width, height, x, y, names);
    const line = d3.line((p) => x(p.x), (p) => y(p.y));
    const area = d3.area().x((p) => x(p.x)).y0((p) => y(p.y - p.e)).y1((p) => y(p.y + p.e));
    series.forEach((s, i) => {
      if (s.stderr) group.append("path").attr("d", area(points[i])).attr("fill", s.color).attr("opacity", 0.2);
      group.append("path").attr("class", "curve").attr("d", line(points[i])).attr("stroke", s.color)
        .attr("stroke-dasharray", s.dash || null);
    });
    readAlong(svg, group, x, y, series, points, names, readout, height);
  };
  drawn(host.querySelector(".plot"), draw)();
}

// A rule that follows the pointer, and the values where it stands.
function readAlong(svg, group, x, y, series, points, names, readout, height) {
  const rule = group.append("line").attr("class", "rule").attr("y1", MARGIN.top).attr("y2", height - MARGIN.bottom);
  rule.attr("visibility", "hidden");
  svg.on("pointermove", (event) => {
    const at = x.invert(d3.pointer(event)[0]);
    const near = points.map((p) => p[d3.bisector((q) => q.x).center(p, at)]);
    const first = near.find((p) => p);
    rule.attr("x1", x(first.x)).attr("x2", x(first.x)).attr("visibility", "visible");
    const values = series.map((s, i) => (near[i] ? `${s.name} ${plusMinus(near[i].y, near[i].e || null, 5)}` : ""));
    readout.textContent = `${names[0]} ${number(first.x)}: ${values.join(", ")}`;
  });
  svg.on("pointerleave", () => {
    rule.attr("visibility", "hidden");
    readout.textContent = "";
  });
}

function legend(series) {
  const key = (s) => {
    const mark = el("span", { class: "key" });
    mark.style.borderTopColor = s.color;
    if (s.dash) mark.style.borderTopStyle = "dashed";
    return el("li", {}, mark, s.name);
  };
  return el("ul", { class: "legend" }, ...series.map(key));
}

// rows: [{ name, color, values, mean, low, high }]: a dot per seed, mean and interval.
function stripChart(host, rows, name) {
  const svg = d3.create("svg").attr("role", "img").attr("aria-label", `${name} of every run`);
  host.append(svg.node());
  const height = 34 * rows.length + 46;
  const draw = (width) => {
    const longest = d3.max(rows, (row) => row.name.length);
    const margin = { ...MARGIN, left: Math.min(width / 3, 7.2 * longest + 14), top: 4 };
    const room = (margin.left - 14) / 7.2;
    const all = rows.flatMap((r) => [...r.values, r.low, r.high]).filter((v) => v != null);
    const x = d3.scaleLinear(spread(all, 0.08), [margin.left, width - margin.right]);
    const group = frame(svg, width, height, x, null, [name, ""], margin);
    rows.forEach((row, i) => {
      const middle = margin.top + 34 * i + 18;
      const label = group.append("text").attr("class", "row").attr("x", margin.left - 10).attr("y", middle + 4);
      label.attr("text-anchor", "end").text(shortened(row.name, room)).append("title").text(row.name);
      if (row.mean == null) return;
      const mark = group.append("g").attr("stroke", row.color).attr("stroke-width", 2);
      if (row.low != null) mark.append("line").attr("x1", x(row.low)).attr("x2", x(row.high)).attr("y1", middle).attr("y2", middle);
      mark.append("line").attr("x1", x(row.mean)).attr("x2", x(row.mean)).attr("y1", middle - 6).attr("y2", middle + 6);
      row.values.forEach((value, k) => {
        if (value == null) return;
        const dot = group.append("circle").attr("r", 3.4).attr("fill", row.color).attr("fill-opacity", 0.55);
        dot.attr("cx", x(value)).attr("cy", middle + ((k * 5) % 7) - 3);
        dot.append("title").text(`${row.name}, seed ${row.seeds[k]}: ${number(value)}`);
      });
    });
  };
  drawn(host, draw)();
}
