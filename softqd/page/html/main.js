// Put the page together.

function header() {
  const links = PAGE.comparison ? "Comparison" : "Run";
  return el("header", {}, el("div", {}, el("p", { class: "kicker" }, `softqd ${PAGE.softqd} \u00b7 ${links}`), el("h1", {}, PAGE.title)), themeButton());
}

function noteList(notes) {
  if (!notes.length) return [];
  return [el("section", { class: "card note", role: "note", id: "notes" }, el("ul", {}, ...notes.map((text) => el("li", {}, text))))];
}

function metricTiles(run) {
  const errorOf = ({ stderr }) => (stderr == null ? null : el("span", { class: "error" }, ` \u00b1 ${number(stderr, 2)}`));
  const tile = (row) => el("div", { class: "tile-number", "data-metric": row.name, title: row.note || null },
    el("span", { class: "value" }, number(row.value, row.name === "seconds" ? 3 : 5), errorOf(row)),
    el("span", { class: "muted" }, row.label), ...(row.note ? [el("small", { class: "muted" }, row.note)] : []));
  return el("div", { class: "tiles", id: "numbers" }, ...run.metrics.map(tile));
}

function settingsView(run) {
  const tables = Object.entries(run.settings).map(([name, values]) => [name, values]);
  tables.push(["versions", run.versions], ["seconds", run.timings]);
  const show = (value) => (typeof value === "object" && value !== null ? JSON.stringify(value) : String(value));
  const block = ([name, values]) => {
    const rows = typeof values === "object" && values !== null ? Object.entries(values) : [["name", values]];
    return el("div", {}, el("h3", {}, name), table(rows.map(([k, v]) => [k.replaceAll("_", " "), show(v)])));
  };
  return card("Settings and versions", { id: "settings" }, el("div", { class: "columns" }, ...tables.map(block)));
}

// A run's own part of the page; with several, one is shown at a time.
function runsView(runs) {
  const body = el("div");
  const show = (index) => {
    const run = { ...runs[index], index: +index };
    body.replaceChildren(...noteList(run.notes), metricTiles(run), explorer(run), settingsView(run));
  };
  show(0);
  if (runs.length === 1) return [body];
  const options = runs.map((run, i) => [i, run.label]);
  const pick = choice("look into", options, 0, show, "run");
  return [el("div", { class: "bar divider" }, el("h2", {}, "One run of each algorithm"), pick), body];
}

const root = document.getElementById("page");
root.replaceChildren(header(), el("main", {}, ...noteList(PAGE.notes),
  ...(PAGE.comparison ? comparisonView(PAGE.comparison) : []),
  ...(PAGE.runs.length ? runsView(PAGE.runs) : [])));
