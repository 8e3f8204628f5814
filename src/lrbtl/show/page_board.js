// The board of one category, with its intervals and rank spreads.

function drawRanks(cell, row, n) {
  const track = element("span", "track");
  const left = (rank) => (100 * (rank - 1)) / n;
  if (row.best !== null) {
    put(track, "joint", left(row.rank_lower), left(row.rank_upper + 1) - left(row.rank_lower));
    put(track, "spread", left(row.best), left(row.worst + 1) - left(row.best));
    put(track, "point rank", left(row.rank + 0.5));
  }
  cell.append(track);
}

const share = (name, head) => textColumn(name, head, "number", -1, (row) => row[name],
  (row) => (row[name] === null ? NOTHING : percent(row[name])));

// How the page shows the columns of a board that it draws in a way of its own, by name; models have their rank in front.
const DRAWN = {
  model: () => [RANK, MODEL],
  rank: () => [],
  score: () => [textColumn("score", "Score", "number", -1, (row) => row.score, (row) => formatScore(row.score))],
  lower: (one) => [
    textColumn("interval", `${level} interval`, "number", -1, (row) => row.lower, formatInterval),
    intervalColumn("drawn", makeAxis(one.axis, data.scale === "probability" ? "percent" : ""),
      (row) => ({ value: row.score, lower: row.lower, upper: row.upper }), one.floor === null ? [] : [one.floor]),
  ],
  best: () => [
    textColumn("spread", "Rank spread", "number", 1, (row) => row.worst, (row) => formatSpread(row.best, row.worst)),
  ],
  rank_lower: (one) => [
    textColumn("joint", "Joint", "number", 1, (row) => row.rank_upper, (row) => formatSpread(row.rank_lower, row.rank_upper)),
    {
      id: "ranks", kind: "drawn narrow", drawn: true, fill: (cell, row) => drawRanks(cell, row, one.ranked),
      headFill: (cell) => fillAxis(cell, [[50 / one.ranked, "1"], [100 - 50 / one.ranked, `${one.ranked}`]]),
    },
  ],
  tier: () => [textColumn("tier", "Tier", "number", 1, (row) => row.tier, (row) => row.tier ?? NOTHING)],
  battles: () => [textColumn("battles", "Votes", "number", -1, (row) => row.battles, (row) => whole(row.battles))],
  win_rate: () => [share("win_rate", "Win rate")],
  above_floor: () => [share("above_floor", "Above floor")],
  verdict: () => [textColumn("verdict", "Against the first", "text", 1, (row) => row.verdict, (row) => row.verdict ?? NOTHING)],
  status: () => [], // sections of the table
  note: () => [], // a mark beside the model
};

// Any other column that boards print.
function plainColumn(one, { name, header }) {
  const values = one.rows.map((row) => row[name]);
  const isNumber = values.some((value) => typeof value === "number");
  const format = formatColumn(values);
  return textColumn(name, capital(header), isNumber ? "number" : "text", isNumber ? -1 : 1, (row) => row[name], (row) => format(row[name]));
}

function boardColumns(one) {
  const printed = data.columns.filter((column) => one.printed.includes(column.name));
  return [
    ...printed.flatMap((column) => DRAWN[column.name]?.(one) ?? [plainColumn(one, column)]),
    ...metaColumns.map(metaColumn),
  ];
}

function drawBoard() {
  const one = board();
  const rows = one.rows.filter(isWanted);
  for (const row of rows) row.className = row.tier && row.tier % 2 === 0 ? "shaded" : "";
  byId("board-table").caption.textContent =
    `Leaderboard, ${one.context}: scores with ${level} intervals, best first; every second tier is shaded`;
  drawTable(byId("board-table"), boardColumns(one), rows, { sort: state.sort || "rank", onSort: sortBy });
  byId("board-about").replaceChildren(...one.about.map((line) => element("li", "", line)));
}

// ---- Further tables of the report: any columns; intervals are drawn where there are some.

function tableAxis(columns) {
  const known = [...columns.lower, ...columns.upper].filter((x) => x !== null);
  if (!known.length) return null;
  let [low, high] = [Math.min(...known), Math.max(...known)];
  if (Math.max(low, -high) < high - low) [low, high] = [Math.min(low, 0), Math.max(high, 0)]; // zero, unless it is far away
  const margin = 0.04 * (high - low) || 1;
  return [low - margin, high + margin];
}

function drawMore(table) {
  const { columns, title, about } = table;
  const names = Object.keys(columns);
  const rows = columns[names[0]].map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
  const value = ["estimate", "value", "change", "gap", "score"].find((name) => name in columns);
  const shown = names.map((name) => {
    const isNumber = columns[name].some((value) => typeof value === "number");
    const format = formatColumn(columns[name === "se" && value ? value : name]);
    return textColumn(name === "model" ? "model" : `column ${name}`, capital(name),
      isNumber ? "number" : "text", isNumber ? -1 : 1, (row) => row[name], (row) => format(row[name]));
  });
  if (value && "lower" in columns && "upper" in columns) {
    const axis = makeAxis(tableAxis(columns), "");
    const read = (row) => ({ value: row[value], lower: row.lower, upper: row.upper });
    shown.splice(names.indexOf("upper") + 1, 0, intervalColumn("drawn", axis, read, [0]));
  }
  const chart = byId("more-chart");
  chart.replaceChildren();
  const has = (...wanted) => wanted.every((name) => name in columns);
  const drawn = has("model", "period", "score") ? drawPaths : has("model", "cost", "score", "frontier") ? drawFrontier : null;
  chart.toggleAttribute("hidden", !drawn);
  if (drawn) drawn(chart, title, columns);
  byId("more-table").caption.textContent = title;
  byId("more-about").replaceChildren(...about.map((line) => element("li", "", line)));
  drawTable(byId("more-table"), shown, rows, { sort: state.sort, onSort: sortBy, sections: false });
}
