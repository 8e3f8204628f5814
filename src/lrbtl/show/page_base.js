// Shared by all views: data, formats, elements, tooltips, and the state that the address holds.

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const level = `${+(100 * data.level).toFixed(2)}%`;
const NOTHING = "–";

// Labels are only ever set as text, never parsed as markup.
function element(tag, className = "", text = "") {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== "") node.textContent = text;
  return node;
}

const whole = (x) => x.toLocaleString("en-US");
const fixed = (x, digits) => x.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const percent = (x, digits = 1) => `${(100 * x).toFixed(digits)}%`;
const chance = (x) => (x > 0.9995 && x < 1 ? ">99.9%" : x < 0.0005 && x > 0 ? "<0.1%" : percent(x));

function formatScore(x) {
  if (x === null) return NOTHING;
  return data.scale === "probability" ? percent(x) : fixed(x, data.scale === "elo" ? 0 : 2);
}

function formatInterval(row) {
  if (row.lower === null && row.upper === null) return NOTHING;
  if (row.upper === null) return `≥ ${formatScore(row.lower)}`;
  if (row.lower === null) return `≤ ${formatScore(row.upper)}`;
  return `${formatScore(row.lower)} to ${formatScore(row.upper)}`;
}

const capital = (name) => name === "se" ? "Standard error" : name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " ");
const formatSpread = (low, high) => (low === null ? NOTHING : low === high ? `${low}` : `${low}–${high}`);

// How to write the values of one column: numbers in one form, with as many decimals as they need (at most three), and
// thousands; small whole numbers such as years stay as they are.
function formatColumn(values) {
  const numbers = values.filter((x) => typeof x === "number");
  const digits = [0, 1, 2].find((d) => numbers.every((x) => Math.abs(x - +x.toFixed(d)) < 1e-9)) ?? (numbers.some((x) => Math.abs(x) >= 100) ? 1 : 3);
  const plain = digits === 0 && numbers.every((x) => x > 1900 && x < 2100);
  return (x) => {
    if (x === null || x === undefined) return NOTHING;
    return typeof x !== "number" || plain ? `${x}` : fixed(x, digits);
  };
}

// ---- Groups of models that votes link: each has its boards, and boards have rows by model.

const CODED = new Set(["model", "status", "note"]); // columns that come as codes, or by row
let start = 0;
for (const group of data.groups) {
  group.meta = start; // where the group's models begin in the columns of meta
  start += group.models.length;
  group.boards.forEach((board, at) => {
    board.at = at;
    board.rows = board.model.map((code, i) => {
      const row = { code, label: group.models[code], index: group.meta + code };
      for (const { name } of data.columns) if (!CODED.has(name)) row[name] = board[name][i];
      row.status = data.statuses[board.status[i]];
      row.note = board.note[i] ?? "";
      return row;
    });
    board.byCode = [];
    for (const row of board.rows) board.byCode[row.code] = row;
    board.ranked = board.rows.filter((row) => row.status === "ranked").length;
  });
}
const linkColumn = data.meta.find((column) => column.link);
const linkOf = (row) => linkColumn?.values[row.index] ?? null;
const metaColumns = data.meta.filter((column) => column !== linkColumn);

// ---- What the reader has chosen. The address holds it by name, so that a link shows the same view.

const state = {};
const group = () => data.groups[state.group];
const board = () => group().boards[state.category];
const categories = () => group().boards.slice(1);

function place(labels, label, otherwise) {
  const at = labels.indexOf(label);
  return at < 0 ? otherwise : at;
}

function readState() {
  const given = new URLSearchParams(location.hash.slice(1));
  state.group = Math.min(Math.max(Number(given.get("group") ?? 1) - 1 || 0, 0), data.groups.length - 1);
  const { models, boards } = group();
  state.tab = given.get("tab") ?? "";
  state.category = place(boards.map((one) => one.context), given.get("category"), 0);
  state.sort = given.get("sort") ?? "";
  state.find = given.get("find") ?? "";
  state.top = Number(given.get("top")) || 20;
  state.a = place(models, given.get("a"), 0);
  state.b = place(models, given.get("b"), Math.min(1, models.length - 1));
  state.mix = readMix(given);
  state.only = new Map(metaColumns.filter((one) => given.has(`only ${one.name}`))
    .map((one) => [one.name, given.get(`only ${one.name}`)]));
}

function writeState(step) {
  const { models, boards } = group();
  const said = new URLSearchParams({ tab: state.tab });
  if (state.group) said.set("group", state.group + 1);
  if (state.category) said.set("category", boards[state.category].context);
  if (state.sort) said.set("sort", state.sort);
  if (state.find) said.set("find", state.find);
  if (state.tab === "wins") said.set("top", state.top);
  if (state.tab === "duel") for (const side of ["a", "b"]) said.set(side, models[state[side]]);
  for (const [name, value] of state.only) said.set(`only ${name}`, value);
  writeMix(said);
  const address = `#${said}`;
  if (address !== location.hash) history[step ? "pushState" : "replaceState"](null, "", address);
}

// Whether a model is among those that the reader looks for.
function isWanted(row) {
  if (!row.label.toLowerCase().includes(state.find.trim().toLowerCase())) return false;
  return metaColumns.every((one) => !state.only.has(one.name) || `${one.values[row.index]}` === state.only.get(one.name));
}

// ---- Tooltips: one element, filled when a node that has one is pointed at, focused or touched.

const tips = new WeakMap();

function addTip(node, words) {
  tips.set(node, words);
  node.classList.add("tipped");
}

function showTip(event) {
  const node = event.target.closest?.(".tipped");
  const tip = byId("tip");
  tip.hidden = !node || !tips.has(node);
  if (tip.hidden) return;
  tip.textContent = tips.get(node)();
  const [at, box] = [node.getBoundingClientRect(), tip.getBoundingClientRect()];
  const above = at.top > box.height + 12;
  tip.style.left = `${Math.max(6, Math.min(at.left, document.documentElement.clientWidth - box.width - 6))}px`;
  tip.style.top = `${above ? at.top - box.height - 6 : at.bottom + 6}px`;
}

for (const kind of ["mouseover", "focusin", "click"]) document.addEventListener(kind, showTip);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") byId("tip").hidden = true; });
document.addEventListener("scroll", () => showTip({ target: document.activeElement }), true); // the focus brings its own along
