// Charts of tables: ratings over time as lines with bands, and scores against costs with the frontier.

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

// ---- Scores against costs on a logarithmic axis: a table with columns model, cost, score, frontier.

const VERDICTS = { "on the frontier": "var(--accent)", "cannot tell": "var(--main)", dominated: "var(--quiet)" };
const NAMED = 18; // models whose names are written: those most likely on the frontier

function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const factor of high / low > 100 ? [1] : [1, 2, 5]) ticks.push(factor * 10 ** power);
  }
  return ticks.filter((tick) => tick >= low && tick <= high);
}

function drawFrontier(chart, title, columns) {
  const narrow = document.documentElement.clientWidth < 640; // on a phone the legend stands above
  const [width, height, left, right, top, bottom] = narrow ? [420, 400, 44, 12, 62, 40] : [1000, 460, 60, 150, 4, 44];
  const smallest = Math.min(...columns.cost.filter((x) => x > 0));
  const rows = columns.model.map((model, i) => ({
    model, score: columns.score[i], lower: columns.lower?.[i] ?? columns.score[i], upper: columns.upper?.[i] ?? columns.score[i],
    cost: columns.cost[i] > 0 ? columns.cost[i] : Number.isFinite(smallest) ? smallest / 2 : 1,
    verdict: columns.frontier[i], chance: columns.p_frontier?.[i] ?? 0,
  })).filter((row) => row.score !== null);
  const costs = rows.map((row) => row.cost);
  const [low, high] = [Math.min(...costs) / 1.2, Math.max(...costs) * 1.2];
  const axis = makeAxis(tableAxis(columns), "");
  const x = (cost) => left + ((width - left - right) * Math.log(cost / low)) / Math.log(high / low);
  const y = (score) => top + (height - top - bottom) * (1 - Math.min(Math.max(axis.place(score), 0), 100) / 100);
  chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
  chart.setAttribute("aria-label", `${title}: scores of ${rows.length} models against their costs; the table below has the numbers`);
  for (const tick of axis.ticks) {
    mark(chart, "line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick) });
    mark(chart, "text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, axis.text(tick));
  }
  for (const tick of logTicks(low, high)) {
    mark(chart, "line", { x1: x(tick), x2: x(tick), y1: top, y2: height - bottom });
    mark(chart, "text", { x: x(tick), y: height - bottom + 16, "text-anchor": "middle" }, `${+tick.toPrecision(3)}`);
  }
  mark(chart, "text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, "cost (logarithmic)");
  const steps = [];
  for (const row of [...rows].sort((p, q) => p.cost - q.cost || q.score - p.score)) {
    const best = steps.at(-1)?.score ?? -Infinity;
    if (row.score > best) steps.push(row);
  }
  const path = steps.flatMap((row, k) => [[x(row.cost), y(row.score)], [x(steps[k + 1]?.cost ?? high), y(row.score)]]);
  mark(chart, "polyline", { points: path.join(" "), "stroke-dasharray": "5 4", style: `stroke: ${VERDICTS["on the frontier"]}; stroke-width: 1.2` });
  const likely = rows.filter((row) => row.chance >= 0.005 && !steps.includes(row)).sort((p, q) => q.chance - p.chance);
  for (const row of rows) {
    const color = VERDICTS[row.verdict] ?? VERDICTS["cannot tell"];
    mark(chart, "line", { x1: x(row.cost), x2: x(row.cost), y1: y(row.lower), y2: y(row.upper), style: `stroke: ${color}; opacity: .5` });
    const point = mark(chart, "circle", { cx: x(row.cost), cy: y(row.score), r: 4, style: `fill: ${color}` });
    mark(point, "title", {}, `${row.model}: ${axis.text(row.score)} at ${row.cost}, ${row.verdict}`);
  }
  const taken = []; // names that would run into one another are left out: points have them as titles
  for (const row of [...steps, ...likely].slice(0, NAMED)) {
    const [length, height] = [6.4 * Math.min(`${row.model}`.length, 24), 12];
    const at = Math.min(x(row.cost) + 7, width - length - 4);
    const box = [at, y(row.score) - 4 - height, at + length, y(row.score) - 4];
    if (taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
    taken.push(box);
    mark(chart, "text", { x: box[0], y: box[3] }, `${row.model}`.length > 24 ? `${`${row.model}`.slice(0, 23)}…` : `${row.model}`);
  }
  Object.entries(VERDICTS).forEach(([verdict, color], k) => {
    const count = rows.filter((row) => row.verdict === verdict).length;
    mark(chart, "text", { x: narrow ? left : width - right + 12, y: 14 + 18 * k, style: `fill: ${color}` }, `● ${verdict} (${count})`);
  });
}
