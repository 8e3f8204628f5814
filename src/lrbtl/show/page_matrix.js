// Views of models by categories (ranks, differences) and of models by models (chances to win).

const MANY = 12; // categories from which on their names stand upright

function sayStanding(row, one) {
  if (!row) return `${one.context}: no board`;
  const parts = [row.rank === null ? row.status : `rank ${row.rank} of ${one.ranked}`];
  if (row.best !== null) parts[0] += ` (${formatSpread(row.best, row.worst)}; jointly ${formatSpread(row.rank_lower, row.rank_upper)})`;
  if (row.score !== null) parts.push(`score ${formatScore(row.score)}`);
  if (row.lower !== null || row.upper !== null) parts[parts.length - 1] += ` (${formatInterval(row)})`;
  parts.push(`${whole(row.battles)} votes`);
  if (row.note) parts.push(row.note);
  return `${row.label}, ${one.context}: ${parts.join("; ")}`;
}

// Colour is the place from the top, paler where the rank is less certain; a line shows the ranks that are possible.
function fillRank(cell, row, one) {
  if (!row || row.rank === null) {
    cell.textContent = NOTHING;
  } else {
    const last = Math.max(one.ranked - 1, 1);
    const [low, high] = row.best === null ? [row.rank, row.rank] : [row.best, row.worst];
    const strength = (0.04 + 0.96 * (1 - (row.rank - 1) / last) ** 2) * (0.3 + 0.7 * (1 - (high - low) / last));
    cell.style.setProperty("--p", `${Math.round(90 * strength)}%`);
    cell.style.setProperty("--from", `${(100 * (low - 1)) / one.ranked}%`);
    cell.style.setProperty("--to", `${(100 * high) / one.ranked}%`);
    if (strength > 0.84) cell.classList.add("strong");
    cell.append(element("b", "", `${row.rank}`));
    if (row.best !== null) cell.append(element("small", "", formatSpread(low, high)));
  }
  addTip(cell, () => sayStanding(row, one));
}

function categoryColumn(one, kind, key, first, fill) {
  return {
    id: `in ${one.context}`, head: one.context, first, key: (row) => key(one.byCode[row.code], row),
    kind: `${kind}${categories().length > MANY ? " upright" : ""}`, fill: (cell, row) => fill(cell, one.byCode[row.code], one, row),
  };
}

function drawOverview() {
  const overall = group().boards[0];
  const axis = makeAxis(overall.axis, data.scale === "probability" ? "percent" : "", 3);
  const ranks = categories().map((one) => categoryColumn(one, "cell", (row) => row?.rank ?? null, 1, fillRank));
  const columns = [
    { ...RANK, head: "Overall", kind: "cell rank", fill: (cell, row) => fillRank(cell, row, overall) },
    MODEL,
    textColumn("score", "Score", "number", -1, (row) => row.score, (row) => formatScore(row.score)),
    ...(overall.intervals
      ? [intervalColumn("drawn", axis, (row) => ({ value: row.score, lower: row.lower, upper: row.upper }))] : []),
    textColumn("battles", "Votes", "number", -1, (row) => row.battles, (row) => whole(row.battles)),
    ...ranks,
  ];
  byId("headline").textContent = group().headline;
  const rows = overall.rows.filter(isWanted);
  for (const row of rows) row.className = "";
  drawTable(byId("overview-table"), columns, rows, { sort: state.sort || "rank", onSort: sortBy });
}

function formatDifference(x) {
  const text = data.scale === "elo" ? whole(Math.round(Math.abs(x))) : data.scale === "logit" ? Math.abs(x).toFixed(2) : percent(Math.abs(x));
  return /^[0.%]+$/.test(text) ? text : `${x > 0 ? "+" : "−"}${text}`;
}

const difference = (row, overall) => (row && row.battles && row.score !== null && overall.score !== null ? row.score - overall.score : null);

function drawHeat() {
  const overall = group().boards[0];
  const sizes = overall.rows.flatMap((row) => categories().map((one) => Math.abs(difference(one.byCode[row.code], row) ?? 0)));
  const limit = sizes.sort((x, y) => x - y)[Math.floor(0.98 * (sizes.length - 1))] || 1;
  const fill = (cell, row, one, whole) => {
    const x = difference(row, whole);
    if (x === null) {
      cell.textContent = NOTHING;
    } else {
      paint(cell, x / limit);
      const sure = row.lower > whole.score || (row.upper !== null && row.upper < whole.score);
      if (sure) cell.classList.add("sure");
      cell.textContent = formatDifference(x);
    }
    addTip(cell, () => `${sayStanding(row, one)}; overall ${formatScore(whole.score)}`);
  };
  const columns = [
    RANK,
    MODEL,
    textColumn("score", "Overall", "number", -1, (row) => row.score, (row) => formatScore(row.score)),
    ...categories().map((one) => categoryColumn(one, "heat", difference, -1, fill)),
  ];
  byId("heat-table").caption.textContent =
    "Score in each category minus the overall score; bold where the interval excludes the overall score";
  drawTable(byId("heat-table"), columns, overall.rows.filter(isWanted), { sort: state.sort || "rank", onSort: sortBy });
}

// Colour from -1 (low) over 0 to 1 (high); differences near the middle stay visible too.
function paint(cell, x) {
  const strength = Math.min(Math.abs(x), 1) ** 0.7;
  cell.style.setProperty("--p", `${Math.round(100 * strength)}%`);
  if (x < 0) cell.classList.add("low");
  if (strength > 0.76) cell.classList.add("strong");
}

// Half the range of a scale of chances: that of nearly all chances shown, so that they differ visibly.
function chanceLimit(pairs) {
  const sizes = pairs.map((pair) => Math.abs(pair.win - 0.5)).sort((x, y) => x - y);
  return [0.1, 0.2, 0.3, 0.4].find((limit) => limit >= sizes[Math.floor(0.98 * (sizes.length - 1))]) ?? 0.5;
}

function drawWins() {
  const { duels } = group();
  const rows = board().rows.filter((row) => row.code < duels.n && row.score !== null && isWanted(row)).slice(0, state.top);
  const written = rows.length <= 40;
  const known = rows.map((row) => rows.map((other) => (row === other ? null : readDuel(state.category, row.code, other.code))));
  const limit = chanceLimit(known.flat().filter(Boolean));
  const columns = rows.map((other, j) => ({
    id: `against ${other.label}`, head: other.label, kind: `heat upright${written ? "" : " tiny"}`,
    fill: (cell, row) => {
      const pair = known[rows.indexOf(row)][j];
      if (!pair) {
        cell.classList.add("none");
        return;
      }
      paint(cell, (pair.win - 0.5) / limit);
      if (pair.lower <= 0.5 && pair.upper >= 0.5) cell.classList.add("open");
      if (written) cell.textContent = Math.round(100 * pair.win);
      cell.dataset.pair = `${row.code} ${other.code}`;
      addTip(cell, () => `${row.label} beats ${other.label}: ${chance(pair.win)} (${level} interval ${chance(pair.lower)} to ${chance(pair.upper)})`);
    },
  }));
  byId("wins-scale").textContent = [0.5 - limit, 0.5, 0.5 + limit].map((x) => percent(x, 0)).join(" – ");
  byId("wins-words").textContent =
    `${board().context}: chance in per cent that the row model beats the column model, the ${whole(rows.length)} best of those chosen.`;
  for (const row of rows) row.className = "";
  drawTable(byId("wins-table"), [RANK, MODEL, ...columns], rows, { sections: false });
}

byId("wins-table").addEventListener("click", (event) => {
  const cell = event.target.closest("td[data-pair]");
  if (!cell) return;
  [state.a, state.b] = cell.dataset.pair.split(" ").map(Number);
  openTab("duel");
});
