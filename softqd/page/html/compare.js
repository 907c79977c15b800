// Several runs: the table with its statistics, curves with bands, every run as a dot.

function comparisonView(compared) {
  const names = Object.keys(compared.algorithms);
  const metrics = Object.keys(compared.statistics).filter((m) => compared.statistics[m]);
  return [
    ...warningList(compared.warnings),
    metricTable(compared, names, metrics),
    curveView(compared, names),
    distributionView(compared, names, metrics),
    budgetTable(compared, names),
  ];
}

function warningList(warnings) {
  if (!warnings.length) return [];
  return [el("section", { class: "card warning", role: "note", id: "warnings" }, el("h2", {}, "Before you believe it"),
    el("ul", {}, ...warnings.map((text) => el("li", {}, text))))];
}

const P_VALUE = (p) => (p == null ? "-" : p < 0.001 ? "<0.001" : p.toFixed(3));

function metricTable(compared, names, metrics) {
  const cell = (found, name) => {
    const row = found.algorithms[name];
    if (!row) return el("td", {}, "-");
    const mark = name === found.best ? "*" : found.not_worse.includes(name) ? "=" : "";
    const text = `${number(row.mean, 4)}${mark}`;
    const error = row.stderr == null ? "" : ` \u00b1 ${number(row.stderr, 2)}`;
    const kind = name === found.best ? "b" : "span";
    const range = row.low == null ? "" : `95 % interval ${number(row.low, 4)} to ${number(row.high, 4)}`;
    const p = row.p == null ? "" : `, p ${P_VALUE(row.p)} against the best`;
    return el("td", { title: `${row.num} runs; ${range}${p}` }, el(kind, {}, text), el("span", { class: "muted" }, error));
  };
  const line = (metric) => {
    const found = compared.statistics[metric];
    return el("tr", { "data-metric": metric }, el("th", { scope: "row" }, compared.labels[metric]),
      ...names.map((name) => cell(found, name)), el("td", {}, P_VALUE(found.kruskal_p)));
  };
  const head = ["", ...names, "p of all"].map((text) => el("th", { scope: "col" }, text));
  const notes = Object.entries(compared.notes).map(([metric, why]) => el("p", { class: "muted" }, `${compared.labels[metric] || metric}: ${why}`));
  return card("Metrics of the final populations", { id: "metrics" }, el("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Table of metrics; scrolls sideways" },
    el("table", { class: "compared" }, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...metrics.map(line)))),
    el("p", { class: "muted" }, `${compared.legend}. More is better in every row.`), ...notes);
}

function curveView(compared, names) {
  const known = names.filter((name) => compared.curves[name]);
  if (!known.length) return "";
  const columns = [...new Set(known.flatMap((name) => Object.keys(compared.curves[name].columns)))];
  const plot = el("div");
  const draw = (column) => {
    const series = known.filter((name) => compared.curves[name].columns[column]).map((name) => ({
      name, color: color(names.indexOf(name)), x: compared.curves[name].evaluations,
      y: compared.curves[name].columns[column].mean, stderr: compared.curves[name].columns[column].stderr,
    }));
    lineChart(plot, series, ["evaluations", words(column)], 320);
  };
  const pick = choice("show", columns.map((c) => [c, words(c)]), columns[0], draw, "curve");
  draw(columns[0]);
  return card("Curves", { id: "curves" }, el("div", { class: "bar" }, pick), plot,
    el("p", { class: "muted" }, "Mean over seeds; the band is one standard error to either side."));
}

function distributionView(compared, names, metrics) {
  const charts = metrics.map((metric) => {
    const found = compared.statistics[metric];
    const rows = names.map((name, i) => ({
      name, color: color(i), values: compared.algorithms[name].values[metric],
      seeds: compared.algorithms[name].seeds, ...found.algorithms[name],
    }));
    const host = el("div", { class: "chart" });
    stripChart(host, rows, compared.labels[metric]);
    return host;
  });
  return card("Every run", { id: "distributions" },
    el("p", { class: "muted" }, "A dot per seed; the bar is the mean, the line its 95 % bootstrap interval."),
    el("div", { class: "charts" }, ...charts));
}

function budgetTable(compared, names) {
  const columns = { iterations: "iterations", evaluations: "evaluations", gradient_evaluations: "gradients",
    paper_evaluations: "paper's count", seconds: "seconds (s)" };
  const mean = (values) => d3.mean((values || []).filter((v) => v != null));
  const line = (name) => {
    const entry = compared.algorithms[name];
    const failed = Object.keys(entry.failures).length;
    const runs = failed ? `${entry.seeds.length} of ${entry.seeds.length + failed}` : entry.seeds.length;
    return el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, String(runs)),
      ...Object.keys(columns).map((key) => el("td", {}, number(key === "seconds" ? mean(entry.values[key]) : Math.round(mean(entry.values[key])), 3))));
  };
  const head = ["", "runs", ...Object.values(columns)].map((text) => el("th", { scope: "col" }, text));
  return card("Spent", {}, el("p", { class: "muted" }, `Mean over seeds, of at most ${number(compared.evaluations)} evaluations a run. Seeds that ran together share their seconds.`),
    el("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Table of budgets; scrolls sideways" },
      el("table", { class: "compared" }, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...names.map(line)))));
}
