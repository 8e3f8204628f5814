// Ratings over time as lines with bands, of the first models of a table with a row per model and period.

const LINES = 8;
const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#7f7f7f"]; // Okabe and Ito

function mark(parent, tag, attributes, text = "") {
  const node = document.createElementNS(parent.namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text) node.textContent = text;
  parent.append(node);
  return node;
}

function drawPaths(chart, title, columns) {
  const [width, height, left, right, bottom] = [1000, 380, 50, 170, 24];
  const periods = [...new Set(columns.period)].sort((x, y) => compareValues(x, y, 1));
  const models = [...new Set(columns.model)].slice(0, LINES);
  const rows = columns.model.map((model, i) => ({
    model, t: periods.indexOf(columns.period[i]), score: columns.score[i],
    lower: columns.lower?.[i] ?? columns.score[i], upper: columns.upper?.[i] ?? columns.score[i],
  })).filter((row) => models.includes(row.model) && row.score !== null).sort((p, q) => p.t - q.t);
  const axis = makeAxis([Math.min(...rows.map((row) => row.lower)), Math.max(...rows.map((row) => row.upper))], "");
  const x = (t) => left + ((width - left - right) * t) / Math.max(periods.length - 1, 1);
  const y = (score) => (height - bottom) * (1 - axis.place(score) / 100);
  chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
  chart.setAttribute("aria-label", `${title}: lines of ${models.length} models; the table below has the numbers`);
  for (const tick of axis.ticks) {
    mark(chart, "line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick) });
    mark(chart, "text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, axis.text(tick));
  }
  const every = Math.ceil(periods.length / 10);
  periods.forEach((period, t) => {
    if (t % every === 0) mark(chart, "text", { x: x(t), y: height - 4, "text-anchor": "middle" }, `${period}`);
  });
  let lowest = Infinity; // names at the ends of lines are moved apart, from the lowest line upwards
  const ends = models.map((model, k) => ({ model, color: COLORS[k], path: rows.filter((row) => row.model === model) }))
    .filter(({ path }) => path.length);
  for (const { model, color, path } of ends.sort((p, q) => p.path.at(-1).score - q.path.at(-1).score)) {
    const band = [...path.map((row) => [x(row.t), y(row.upper)]), ...path.map((row) => [x(row.t), y(row.lower)]).reverse()];
    mark(chart, "polygon", { points: band.join(" "), fill: color });
    mark(chart, "polyline", { points: path.map((row) => [x(row.t), y(row.score)]).join(" "), stroke: color });
    lowest = Math.min(y(path.at(-1).score), lowest - 15);
    mark(chart, "text", { x: x(path.at(-1).t) + 8, y: lowest + 4, style: `fill: ${color}` }, `${model}`);
  }
}
