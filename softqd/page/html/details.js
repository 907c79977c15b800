// The solution that is inspected, and pictures of those that are selected.

function detailsView(model) {
  const body = el("div", { id: "details" });
  const ranked = [...model.order].reverse();
  const place = () => ranked.indexOf(model.current);
  const step = (by) => () => model.inspect(ranked[Math.max(0, Math.min(ranked.length - 1, place() + by))]);
  const buttons = el("div", { class: "bar" },
    el("button", { type: "button", id: "best", onclick: () => model.inspect(ranked[0]) }, "Best"),
    el("button", { type: "button", id: "better", onclick: step(-1) }, "Better"),
    el("button", { type: "button", id: "worse", onclick: step(1) }, "Next best"));
  // Read aloud where the page is: what the arrow keys have come to.
  const head = el("p", { class: "headline", "aria-live": "polite" });
  model.on.on("inspect.details", () => {
    head.replaceChildren(el("b", { id: "quality" }, number(model.quality.values[model.current])),
      ` quality of solution ${model.current}, rank ${number(place() + 1)} of ${number(model.run.num)}`);
    body.replaceChildren(...describe(model));
  });
  return card("Solution", { id: "solution" }, buttons, head, body);
}

function describe(model) {
  const { run, current } = model;
  const parts = [];
  const source = pictureOf(run, current);
  if (source) {
    const shown = [figure(source, `solution ${current}`, "picture")];
    if (run.target) shown.push(figure(`data:image/jpeg;base64,${run.target}`, "target", "picture target"));
    parts.push(el("div", { class: "pictures" }, ...shown));
  } else if (run.members.length) {
    parts.push(el("p", { class: "muted" }, "This one was not drawn; those in the gallery are."));
  }
  const rows = model.axes.slice(0, model.dim).map((axis) => behaviorRow(axis, axis.values[current]));
  const list = el("table", { class: "values", id: "values" }, el("tbody", {}, ...rows));
  return [...parts, el("div", { class: "scroll" }, list), neighborList(model)];
}

function figure(source, caption, kind) {
  return el("figure", { class: kind }, el("img", { src: source, alt: caption }), el("figcaption", {}, caption));
}

function behaviorRow(axis, value) {
  const bar = el("span", { class: "place" }, el("i"));
  const share = (value - axis.domain[0]) / (axis.domain[1] - axis.domain[0]);
  bar.firstChild.style.left = `${100 * Math.max(0, Math.min(1, share))}%`;
  return el("tr", {}, el("th", { scope: "row" }, axis.name), el("td", { class: "number" }, number(value)), el("td", { class: "where" }, bar));
}

function neighborList(model) {
  const near = model.neighbors;
  if (!near.length) return el("p", { class: "muted" }, "There are no others.");
  const item = ([distance, i]) => {
    const source = pictureOf(model.run, i);
    const button = el("button", { type: "button", class: "near", onclick: () => model.inspect(i),
      onpointerenter: () => model.hover(i), onpointerleave: () => model.hover(-1) },
      ...(source ? [el("img", { src: source, alt: "" })] : []),
      el("span", {}, `solution ${i}`), el("span", { class: "muted" }, `quality ${number(model.quality.values[i], 4)}`),
      el("span", { class: "muted" }, `distance ${number(distance, 3)}`));
    return el("li", {}, button);
  };
  return el("div", {}, el("h3", {}, "Nearest neighbors"),
    el("p", { class: "muted" }, "By behavior, each side of the space counted as 1."),
    el("ol", { class: "neighbors", id: "neighbors" }, ...near.map(item)));
}

// Pictures of the selection, best first; each is decoded when it comes into view.
function galleryView(model) {
  const grid = el("div", { class: "gallery", id: "gallery" });
  const count = el("p", { class: "muted", id: "gallery-count" });
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      target.firstChild.src = pictureOf(model.run, +target.dataset.member);
      seen.unobserve(target);
    }
  }, { rootMargin: "300px" });
  const tiles = model.run.members.map((i) => {
    const tile = el("button", { type: "button", class: "tile", "data-member": i, onclick: () => model.inspect(i),
      onpointerenter: () => model.hover(i), onpointerleave: () => model.hover(-1),
      "aria-label": `solution ${i}, quality ${number(model.quality.values[i], 4)}` }, el("img", { alt: "", width: 96, height: 96 }));
    seen.observe(tile);
    return tile;
  });
  grid.append(...tiles);
  const refresh = () => {
    let shown = 0;
    tiles.forEach((tile) => {
      tile.hidden = !model.selected[+tile.dataset.member];
      shown += !tile.hidden;
    });
    count.textContent = `${number(shown)} of ${number(tiles.length)} pictures, best first`;
  };
  model.on.on("select.gallery", refresh).on("inspect.gallery", () => {
    tiles.forEach((tile) => tile.classList.toggle("current", +tile.dataset.member === model.current));
  });
  refresh();
  return card("Pictures of the selection", {}, count, grid);
}
