// One kind of table for all views: sortable columns, sections of rows, a model column that stays in sight.

const SECTIONS = {
  ranked: "",
  absent: "No votes in this category: scores come from the other categories",
  preliminary: "Preliminary: too few votes for a rank",
  unplaced: "No score by this method",
};

// Order of two values; what is missing comes last whatever the direction.
function compareValues(x, y, direction) {
  const [missingX, missingY] = [x === null || x === undefined, y === null || y === undefined];
  if (missingX || missingY) return missingX - missingY;
  return x < y ? -direction : x > y ? direction : 0;
}

// `columns` are {id, head, key, first, fill(cell, row), kind, headFill}; `first` is the direction of the first click.
function drawTable(table, columns, rows, { sort = "", onSort = null, sections = true } = {}) {
  const focused = document.activeElement?.closest?.(`#${table.id} thead`) ? document.activeElement.dataset.column : null;
  const sorted = columns.find((column) => column.key && column.id === sort.replace(/^-/, ""));
  const direction = sort.startsWith("-") ? -1 : 1;
  const shown = sorted ? [...rows].sort((p, q) => compareValues(sorted.key(p), sorted.key(q), direction)) : rows;
  table.tHead.replaceChildren(drawHead(columns, sorted, direction, onSort));
  for (const body of [...table.tBodies]) body.remove();
  for (const [status, title] of Object.entries(sections ? SECTIONS : { all: "" })) {
    const part = sections ? shown.filter((row) => row.status === status) : shown;
    if (!part.length) continue;
    const body = element("tbody", status);
    if (title) body.append(drawSection(title, columns.length));
    body.append(...part.map((row) => drawRow(columns, row)));
    table.append(body);
  }
  if (focused) table.tHead.querySelector(`button[data-column="${CSS.escape(focused)}"]`)?.focus();
  markOverflow(table.closest(".scroll"));
}

function drawHead(columns, sorted, direction, onSort) {
  const line = element("tr");
  for (const column of columns) {
    const cell = element("th", column.kind ?? "");
    cell.scope = "col";
    cell.dataset.column = column.id;
    if (column.headFill) {
      column.headFill(cell);
    } else if (column.key && onSort) {
      const [start, ...more] = column.head.split(/(?<=_)/); // names of categories may break after _
      const button = element("button", "", start);
      for (const part of more) button.append(element("wbr"), part);
      button.type = "button";
      button.dataset.column = column.id;
      const next = sorted === column ? -direction : column.first;
      button.addEventListener("click", () => onSort(`${next < 0 ? "-" : ""}${column.id}`));
      cell.append(button);
    } else {
      cell.append(element("span", "", column.head ?? ""));
    }
    if (column === sorted) cell.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    line.append(cell);
  }
  return line;
}

function drawSection(title, width) {
  const line = element("tr", "section");
  const cell = element("th");
  cell.colSpan = width;
  cell.scope = "rowgroup";
  cell.append(element("span", "", title));
  line.append(cell);
  return line;
}

function drawRow(columns, row) {
  const line = element("tr", row.className ?? "");
  for (const column of columns) {
    const cell = element(column.id === "model" ? "th" : "td", column.kind ?? "");
    if (column.id === "model") cell.scope = "row";
    if (column.drawn) cell.setAttribute("aria-hidden", "true");
    column.fill(cell, row);
    line.append(cell);
  }
  return line;
}

// ---- Columns that several views have.

const RANK = {
  id: "rank", head: "Rank", kind: "number rank", first: 1, key: (row) => row.rank,
  fill: (cell, row) => { cell.textContent = row.rank ?? NOTHING; },
};
const MODEL = { id: "model", head: "Model", kind: "model", first: 1, key: (row) => row.label.toLowerCase(), fill: fillModel };

function fillModel(cell, row) {
  const address = linkOf(row);
  const name = element(address ? "a" : "span", "name", row.label);
  if (address) {
    name.href = address;
    name.rel = "noopener noreferrer";
    name.target = "_blank";
  }
  name.title = row.label;
  cell.append(name);
  if (!row.note) return;
  const mark = element("button", "mark", "i");
  mark.type = "button";
  mark.setAttribute("aria-label", `Note: ${row.note}`);
  addTip(mark, () => `${row.label}: ${row.note}`);
  cell.append(mark);
}

const textColumn = (id, head, kind, first, key, text) => ({
  id, head, kind, first, key, fill: (cell, row) => { cell.textContent = text(row); },
});

function metaColumn(column) {
  const isNumber = column.values.some((value) => typeof value === "number");
  const key = (row) => column.values[row.index];
  const format = formatColumn(column.values);
  return textColumn(`meta ${column.name}`, capital(column.name), isNumber ? "number" : "text", 1, key, (row) => format(key(row)));
}

// ---- Drawn intervals: an axis, and a track with a bar and a point in each row.

function niceStep(width, most) {
  const power = 10 ** Math.floor(Math.log10(width / most));
  return power * [1, 2, 2.5, 5, 10, 20].find((factor) => width / (factor * power) <= most);
}

// Linear axis between two ends with about so many ticks, but two at least; intervals and scores may lie beyond them.
function makeAxis(ends, format, most = 5) {
  if (!ends) return { ticks: [], place: () => 50, text: String };
  const [low, width] = [ends[0], ends[1] - ends[0]];
  const step = niceStep(width, most);
  const ticks = [];
  for (let i = Math.ceil((low + 0.04 * width) / step); i * step <= low + 0.96 * width; i++) ticks.push(i * step || 0);
  if (ticks.length < 2 && most < 10) return makeAxis(ends, format, most + 1);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const text = format === "percent" ? (x) => percent(x, Math.max(0, digits - 2)) : (x) => fixed(x, digits);
  return { ticks, text, place: (x) => (100 * (x - low)) / width };
}

function put(parent, className, left, width = null) {
  const node = element("span", className);
  node.style.left = `${left}%`;
  if (width !== null) node.style.width = `${width}%`;
  parent.append(node);
}

function fillAxis(cell, marks) {
  const line = element("span", "axis");
  for (const [left, text] of marks) {
    put(line, "", left);
    line.lastChild.textContent = text;
    if (left < 4 || left > 96) line.lastChild.style.transform = `translateX(${-left}%)`;
  }
  cell.setAttribute("aria-hidden", "true");
  cell.append(line);
}

function drawInterval(cell, { value, lower, upper }, axis, special = []) {
  const track = element("span", "track");
  for (const tick of axis.ticks) put(track, "tick", axis.place(tick));
  for (const x of special) if (axis.place(x) >= 0 && axis.place(x) <= 100) put(track, "tick strong", axis.place(x));
  const inside = (x) => Math.min(Math.max(x, 0), 100);
  const [from, to] = [lower === null ? -1 : axis.place(lower), upper === null ? 101 : axis.place(upper)];
  if (lower !== null || upper !== null) {
    const open = (from < 0 ? " open-left" : "") + (to > 100 ? " open-right" : "");
    put(track, `bar${open}`, inside(from), inside(to) - inside(from));
  }
  const at = value === null ? -1 : axis.place(value);
  if (at >= 0 && at <= 100) put(track, "point", at);
  cell.append(track);
}

const intervalColumn = (id, axis, read, special) => ({
  id, kind: "drawn", drawn: true,
  headFill: (cell) => fillAxis(cell, axis.ticks.map((tick) => [axis.place(tick), axis.text(tick)])),
  fill: (cell, row) => drawInterval(cell, read(row), axis, special),
});

// ---- A hint where a table goes on beyond the screen.

function markOverflow(scroll) {
  const left = scroll.scrollWidth - scroll.clientWidth - scroll.scrollLeft;
  scroll.parentElement.classList.toggle("more", left > 2);
  scroll.parentElement.classList.toggle("wide", scroll.scrollWidth > scroll.clientWidth + 2);
}
