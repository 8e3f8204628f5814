// Two models head to head in every category.

const bytesOf = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
const UNIT = { elo: 400 / Math.log(10), logit: 1 }[data.scale];
const [UNKNOWN, ENDLESS] = [255, 254];
const logistic = (x) => 1 / (1 + Math.exp(-x));

function unpack(part) {
  return part && { ...part, size: new Float32Array(bytesOf(part.size).buffer), code: bytesOf(part.code) };
}

// Chances of a board, decoded when first asked for.
function chancesOf(at) {
  const { duels } = group();
  duels.ready ??= [];
  duels.ready[at] ??= (({ centre, step, below, above }) => ({
    step, centre: centre && new Int16Array(bytesOf(centre).buffer), below: unpack(below), above: unpack(above),
  }))(duels.boards[at]);
  return duels.ready[at];
}

function readWidth({ size, low, step, code }, i, j, at) {
  if (code[at] === UNKNOWN) return null;
  return code[at] === ENDLESS ? Infinity : Math.hypot(size[i], size[j]) * Math.exp(low + step * code[at]);
}

// Chance that model a beats model b on a board, with its limits; null where the votes do not say.
function readDuel(at, a, b) {
  const { n } = group().duels;
  const [i, j] = a < b ? [a, b] : [b, a];
  const pair = i * n - (i * (i + 1)) / 2 + j - i - 1;
  const { centre, step, below, above } = chancesOf(at);
  const one = group().boards[at];
  const width = readWidth(below, i, j, pair);
  if (width === null) return null;
  const gap = centre ? step * centre[pair] : (one.byCode[i].score - one.byCode[j].score) / UNIT;
  const [win, lower, upper] = [gap, gap - width, gap + (above ? readWidth(above, i, j, pair) : width)].map(logistic);
  return a < b ? { win, lower, upper } : { win: 1 - win, lower: 1 - upper, upper: 1 - lower };
}

function sayDuel(pair, a, b) {
  if (!pair) return "not comparable: the votes do not say";
  if (pair.lower > 0.5) return `${a} is ahead`;
  if (pair.upper < 0.5) return `${b} is ahead`;
  return "the votes cannot tell";
}

function drawDuel() {
  const { models, boards, duels } = group();
  const { a, b } = state;
  const rows = a === b ? [] : boards.map((one, at) => ({ label: one.context, pair: readDuel(at, a, b) }));
  const axis = { ...makeAxis([0, 1], "percent"), ticks: [0, 0.25, 0.5, 0.75, 1] };
  const columns = [
    { id: "model", head: "Category", kind: "model", fill: (cell, row) => { cell.textContent = row.label; } },
    textColumn("win", "Win probability", "number", 1, null, ({ pair }) => (pair ? chance(pair.win) : NOTHING)),
    textColumn("interval", `${level} interval`, "number", 1, null,
      ({ pair }) => (pair ? `${chance(pair.lower)} to ${chance(pair.upper)}` : NOTHING)),
    intervalColumn("drawn", axis, ({ pair }) => (pair ? { value: pair.win, ...pair } : { value: null, lower: null, upper: null }), [0.5]),
    textColumn("words", "In words", "text", 1, null, ({ pair }) => sayDuel(pair, models[a], models[b])),
  ];
  byId("duel-table").caption.textContent = a === b ? "" : `Probability that ${models[a]} beats ${models[b]}`;
  byId("duel-words").textContent = a === b ? "Pick two different models." : sayOverall(rows[0].pair, models[a], models[b]);
  byId("duel-limit").textContent = duels.n === models.length ? ""
    : `To keep this file small, only the best ${whole(duels.n)} of ${whole(models.length)} models can be picked.`;
  byId("duel-a").value = a;
  byId("duel-b").value = b;
  drawTable(byId("duel-table"), columns, rows, { sections: false });
}

function sayOverall(pair, a, b) {
  if (!pair) return `Overall: ${a} and ${b} are ${sayDuel(pair)}.`;
  return `Overall: ${a} beats ${b} with probability ${chance(pair.win)} (${level} interval ${chance(pair.lower)} to ${chance(pair.upper)}).`;
}

for (const side of ["a", "b"]) {
  byId(`duel-${side}`).addEventListener("change", (event) => {
    state[side] = Number(event.target.value);
    draw();
  });
}
byId("swap").addEventListener("click", () => {
  [state.a, state.b] = [state.b, state.a];
  draw();
});
