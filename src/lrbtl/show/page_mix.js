// The overall board for weights of the reader's own, made from what `show/mix.py` packs.

// What the reader has asked for: the number of a preset, or weights by category.
function readMix(given) {
  const { mix } = group();
  if (!mix) return 0;
  const own = mix.categories.map((name) => Math.max(Number(given.get(`weight ${name}`)) || 0, 0));
  if (own.some((weight) => weight > 0)) return own;
  return Math.max(mix.presets.findIndex((preset) => preset.name === given.get("mix")), 0);
}

function writeMix(said) {
  const { mix } = group();
  if (!mix) return;
  if (Array.isArray(state.mix)) {
    mix.categories.forEach((name, u) => { if (state.mix[u]) said.set(`weight ${name}`, +state.mix[u].toPrecision(6)); });
  } else if (state.mix > 0) {
    said.set("mix", mix.presets[state.mix].name);
  }
}

function unpackRows({ unit, code }) {
  const whole = new Int16Array(bytesOf(code).buffer);
  const width = whole.length / unit.length;
  return { width, rows: unit.map((size, k) => Float32Array.from(whole.subarray(k * width, (k + 1) * width), (x) => x * size)) };
}

// Variances and covariances as forms in the weights, unpacked when first asked for.
function readyMix() {
  const { mix } = group();
  mix.ready ??= {
    scores: new Float32Array(bytesOf(mix.scores).buffer), mixing: new Float32Array(bytesOf(mix.mixing).buffer),
    variances: unpackRows(mix.variances), covariances: unpackRows(mix.covariances),
  };
  return mix.ready;
}

const mixWeights = () => {
  const given = Array.isArray(state.mix) ? state.mix : group().mix.presets[state.mix].weights;
  const total = given.reduce((sum, x) => sum + x, 0);
  return given.map((x) => (total > 0 ? x / total : 0));
};

function addUp(rows, shares, width) {
  const out = new Float64Array(width);
  rows.forEach((row, k) => {
    const by = shares[k];
    if (by !== 0) for (let i = 0; i < width; i++) out[i] += by * row[i];
  });
  return out;
}

// Scores (n) of a mix, on the scale of log odds, their variances (n), and covariances of pairs i < j, row by row.
function mixMoments(weights) {
  const { scores, mixing, variances, covariances } = readyMix();
  const n = variances.width;
  const shares = [];
  for (let u = 0; u < weights.length; u++) for (let v = u; v < weights.length; v++) shares.push(weights[u] * weights[v]);
  const parts = covariances.rows.map((_, k) => shares.reduce((sum, share, at) => sum + share * mixing[at * covariances.rows.length + k], 0));
  const score = new Float64Array(n);
  weights.forEach((weight, u) => { for (let i = 0; i < n; i++) score[i] += weight * scores[u * n + i]; });
  return { n, score, variance: addUp(variances.rows, shares, n), covariance: addUp(covariances.rows, parts, covariances.width) };
}

// Errors of all gaps between some models.
function gapErrors({ n, variance, covariance }, models) {
  return models.map((i) => Float64Array.from(models, (j) => {
    const [a, b] = i < j ? [i, j] : [j, i];
    const shared = i === j ? variance[i] : covariance[a * n - (a * (a + 1)) / 2 + b - a - 1];
    return Math.sqrt(Math.max(variance[i] + variance[j] - 2 * shared, 0));
  }));
}

// The quantile of joint intervals: that of a preset, elsewhere the largest that is known.
const quantileOf = (known) => (Array.isArray(state.mix) ? Math.max(...known) : known[state.mix]);

function tiersOf(order, above) {
  const tier = [];
  let [first, number] = [0, 1];
  order.forEach((i, place) => {
    if (place > first && above(order[first], i)) [first, number] = [place, number + 1];
    tier[i] = number;
  });
  return tier;
}

const countIf = (rows, test) => rows.reduce((sum, row) => sum + (test(row) ? 1 : 0), 0);

function mixBoard(weights) {
  const { mix, boards } = group();
  const overall = boards[0];
  const found = mixMoments(weights);
  const [unknown, preliminary] = [new Set(mix.unknown), new Set(mix.preliminary)];
  const votes = overall.rows.map((_, i) => mix.votes.reduce((sum, counts, u) => sum + (weights[u] > 0 ? counts[i] : 0), 0));
  const statusOf = (i) => (votes[i] === 0 ? "absent" : unknown.has(i) ? "unplaced" : preliminary.has(i) ? "preliminary" : "ranked");
  const rows = overall.rows.map((row, i) => ({
    code: row.code, label: row.label, index: row.index, at: i, status: statusOf(i), note: "", battles: votes[i],
    rank: null, best: null, worst: null, rank_lower: null, rank_upper: null, tier: null, score: null, lower: null, upper: null,
  }));
  const ranked = rows.filter((row) => row.status === "ranked");
  if (ranked.length < 2) return { rows, ranked, found };
  const models = ranked.map((row) => row.at);
  const mean = models.reduce((sum, i) => sum + found.score[i], 0) / models.length;
  const anchored = mix.anchor && !unknown.has(mix.anchor[0]);
  const shift = anchored ? mix.anchor[1] - mix.unit * found.score[mix.anchor[0]] : mix.base - mix.unit * mean;
  const covarianceOf = (i, j) => {
    const [a, b] = i < j ? [i, j] : [j, i];
    return i === j ? found.variance[i] : found.covariance[a * found.n - (a * (a + 1)) / 2 + b - a - 1];
  };
  const middle = rows.map((row) => models.reduce((sum, j) => sum + covarianceOf(row.at, j), 0) / models.length);
  const centre = models.reduce((sum, i) => sum + middle[i], 0) / models.length;
  for (const row of rows) {
    if (unknown.has(row.at)) continue;
    row.score = shift + mix.unit * found.score[row.at];
    row.reach = mix.unit * mix.single * Math.sqrt(Math.max(found.variance[row.at] - 2 * middle[row.at] + centre, 0));
    [row.lower, row.upper] = [row.score - row.reach, row.score + row.reach];
  }
  rankRows(ranked, gapErrors(found, models), mix.unit * quantileOf(mix.critical));
  return { rows, ranked, found };
}

// Ranks, those that the intervals allow one at a time and jointly, and tiers.
function rankRows(ranked, errors, reach) {
  const above = (p, q) => ranked[p].score - ranked[q].score > reach * errors[p][q] && errors[p][q] > 0;
  const order = ranked.map((_, p) => p).sort((p, q) => ranked[q].score - ranked[p].score);
  const tier = tiersOf(order, above);
  const places = ranked.map((_, p) => p);
  ranked.forEach((row, p) => {
    row.rank = 1 + countIf(ranked, (other) => other.score > row.score);
    row.rank_lower = Math.min(1 + countIf(places, (q) => above(q, p)), row.rank);
    row.rank_upper = Math.max(ranked.length - countIf(places, (q) => above(p, q)), row.rank);
    row.best = Math.min(Math.max(1 + countIf(ranked, (other) => other.lower > row.upper), row.rank_lower), row.rank);
    row.worst = Math.max(Math.min(ranked.length - countIf(ranked, (other) => other.upper < row.lower), row.rank_upper), row.rank);
    row.tier = tier[p];
  });
}

// Which models are on the frontier of score and cost: shown to be better than all that cost no more; or dominated.
function mixFrontier({ ranked, found }) {
  const { mix } = group();
  const rows = ranked.filter((row) => mix.costs?.[row.at] !== null && mix.costs?.[row.at] !== undefined);
  if (rows.length < 2) return [];
  const errors = gapErrors(found, rows.map((row) => row.at));
  const reach = mix.unit * quantileOf(mix.critical_costs);
  rows.forEach((row) => { row.cost = mix.costs[row.at]; });
  rows.forEach((row, p) => {
    const rivals = rows.map((other, q) => ({ other, by: reach * errors[p][q] })).filter(({ other }) => other !== row && other.cost <= row.cost);
    const better = rivals.filter(({ other, by }) => other.score - row.score > by).sort((x, y) => y.other.score - x.other.score);
    row.by = better[0]?.other.label ?? null;
    row.frontier = better.length ? "dominated" : rivals.every(({ other, by }) => row.score - other.score > by) ? "on the frontier" : "cannot tell";
  });
  return rows;
}

function mixAxis(rows) {
  const [low, high] = [Math.min(...rows.map((row) => row.lower)), Math.max(...rows.map((row) => row.upper))];
  const margin = 0.03 * (high - low) || 1;
  return [low - margin, high + margin];
}

// With `moving` only the rows in sight: the others, and the address, follow when the slider rests.
function drawMix({ moving = false } = {}) {
  const { mix } = group();
  const weights = mixWeights();
  drawSliders(weights);
  const chart = byId("mix-chart");
  chart.replaceChildren();
  const made = mixBoard(weights);
  const priced = mixFrontier(made);
  chart.toggleAttribute("hidden", !priced.length);
  byId("mix-words").textContent = sayMix(made.ranked, priced);
  if (priced.length) {
    const take = (name) => priced.map((row) => row[name]);
    drawFrontier(chart, "Your mix", {
      model: take("label"), score: take("score"), lower: take("lower"), upper: take("upper"), cost: take("cost"), frontier: take("frontier"),
      p_frontier: priced.map((row) => (row.frontier === "dominated" ? 0 : row.frontier === "cannot tell" ? 0.5 : 1)),
    });
  }
  const axis = made.ranked.length > 1 ? mixAxis(made.ranked) : null;
  const one = { rows: made.rows, ranked: made.ranked.length, axis, floor: null, context: "your mix" };
  const names = made.ranked.length > 1 ? ["model", "score", "lower", "best", "rank_lower", "tier", "battles"] : ["model", "battles"];
  const verdict = (row) => (row.frontier ? (row.by === null ? row.frontier : `${row.frontier} by ${row.by}`) : null);
  const columns = [
    ...names.flatMap((name) => DRAWN[name](one)),
    ...(priced.length ? [
      textColumn("cost", "Cost", "number", 1, (row) => row.cost ?? null, (row) => (row.cost === undefined ? NOTHING : `${+row.cost.toPrecision(4)}`)),
      textColumn("frontier", "Frontier", "text", 1, verdict, (row) => verdict(row) ?? NOTHING),
    ] : []),
    ...metaColumns.map(metaColumn),
  ];
  const rows = made.rows.filter(isWanted).sort((p, q) => compareValues(p.score, q.score, -1));
  for (const row of rows) row.className = row.tier && row.tier % 2 === 0 ? "shaded" : "";
  const frame = byId("mix-table").closest(".scroll");
  const most = moving && !state.sort ? Math.ceil((frame.scrollTop + frame.clientHeight) / LOW_ROW) : rows.length;
  drawTable(byId("mix-table"), columns, rows.slice(0, most), { sort: state.sort || "rank", onSort: sortBy });
  byId("mix-about").replaceChildren(...mix.about.map((line) => element("li", "", line)));
}

function sayMix(ranked, priced) {
  if (ranked.length < 2) return "Fewer than two models can be ranked with these weights: give more categories some weight.";
  const first = ranked.filter((row) => row.tier === 1).sort((p, q) => q.score - p.score);
  const head = first.length === 1 ? `${first[0].label} leads, apart from all others at ${level}.`
    : `${first[0].label} has the best score of the ${whole(first.length)} models in the first tier.`;
  if (!priced.length) return head;
  const count = (word) => countIf(priced, (row) => row.frontier === word);
  return `${head} By score and cost ${count("on the frontier")} are on the frontier, ${count("dominated")} are dominated, ${count("cannot tell")} cannot tell.`;
}

// ---- Sliders and presets.

const LOW_ROW = 24; // pixels that a row takes at least
const REST = 150; // milliseconds after which a slider is taken to rest
let [redraw, settle] = [0, 0]; // what waits to be drawn

function drawSliders(weights) {
  const { mix } = group();
  const most = Math.max(...weights);
  const given = Array.isArray(state.mix) ? state.mix : weights.map((x) => (100 * x) / most);
  document.querySelectorAll("#mix-sliders label").forEach((label, u) => {
    const [input, output] = [label.querySelector("input"), label.querySelector("output")];
    if (input !== document.activeElement || !Array.isArray(state.mix)) input.value = given[u];
    output.textContent = percent(weights[u], weights[u] > 0 && weights[u] < 0.0995 ? 1 : 0);
    input.setAttribute("aria-valuetext", `${mix.categories[u]}: ${output.textContent}`);
  });
  document.querySelectorAll("#mix-presets button").forEach((button, k) => button.setAttribute("aria-pressed", state.mix === k));
}

function moveSlider(u, value) {
  const weights = mixWeights();
  const most = Math.max(...weights);
  const given = Array.isArray(state.mix) ? state.mix : weights.map((x) => +((100 * x) / most).toPrecision(6));
  state.mix = given.with(u, value);
  cancelAnimationFrame(redraw);
  clearTimeout(settle);
  redraw = requestAnimationFrame(() => drawMix({ moving: true }));
  settle = setTimeout(draw, REST);
}

function startMix() {
  const { mix } = group();
  byId("mix-presets").replaceChildren();
  byId("mix-sliders").replaceChildren();
  if (!mix) return;
  mix.presets.forEach(({ name }, k) => {
    const button = element("button", "", name);
    button.type = "button";
    button.addEventListener("click", () => {
      state.mix = k;
      draw();
    });
    byId("mix-presets").append(button);
  });
  mix.categories.forEach((name, u) => {
    const label = element("label");
    const input = element("input");
    Object.assign(input, { type: "range", min: 0, max: 100, step: "any" });
    input.addEventListener("input", () => moveSlider(u, Number(input.value)));
    const words = element("span", "", name);
    words.title = name;
    label.append(words, input, element("output"));
    byId("mix-sliders").append(label);
  });
}
