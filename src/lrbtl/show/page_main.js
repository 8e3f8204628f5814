// Tabs, controls, downloads; the page is drawn from the state whenever that changes.

const hasCategories = () => categories().length > 0;
const hasDuels = () => Boolean(group().duels);
const TABS = [
  { id: "overview", name: "Overview", section: "overview", draw: drawOverview, exists: hasCategories },
  { id: "board", name: "Leaderboard", section: "board", draw: drawBoard, exists: () => true, category: true },
  { id: "mix", name: "Your mix", section: "mix", draw: drawMix, exists: () => Boolean(group().mix), mix: true },
  { id: "heat", name: "Heat map", section: "heat", draw: drawHeat, exists: hasCategories },
  { id: "wins", name: "Win matrix", section: "wins", draw: drawWins, exists: hasDuels, category: true },
  { id: "duel", name: "Head to head", section: "duel", draw: drawDuel, exists: hasDuels, plain: true },
  ...data.tables.map((table, i) => ({
    id: `table${i + 1}`, name: table.title, section: "more", draw: () => drawMore(table), exists: () => true, plain: true,
  })),
];
const SECTIONS_OF_PAGE = [...new Set(TABS.map((tab) => tab.section))];
const tabNow = () => {
  const known = TABS.filter((tab) => tab.exists());
  return known.find((tab) => tab.id === state.tab) ?? known[0];
};

function draw({ step = false } = {}) {
  const tab = tabNow();
  state.tab = tab.id;
  for (const section of SECTIONS_OF_PAGE) byId(section).hidden = section !== tab.section;
  for (const one of TABS) {
    const button = byId(`tab-${one.id}`);
    button.hidden = !one.exists();
    button.setAttribute("aria-selected", one === tab);
    button.tabIndex = one === tab ? 0 : -1;
    if (one === tab) byId("tabs").scrollLeft = button.offsetLeft - byId("tabs").offsetLeft - 60;
  }
  byId(tab.section).setAttribute("aria-labelledby", `tab-${tab.id}`);
  drawControls(tab);
  tab.draw();
  writeState(step);
}

function openTab(id) {
  state.tab = id;
  state.sort = "";
  draw({ step: true });
  byId("tip").hidden = true;
}

function sortBy(sort) {
  state.sort = sort;
  draw();
}

// ---- Controls.

function fillSelect(select, entries, chosen) {
  select.replaceChildren(...entries.map(([value, label]) => {
    const option = element("option", "", label);
    option.value = value;
    return option;
  }));
  select.value = chosen;
}

function drawControls(tab) {
  const { models, boards, duels } = group();
  byId("controls").hidden = Boolean(tab.plain);
  byId("group-label").hidden = data.groups.length < 2;
  byId("category-label").hidden = !tab.category || boards.length < 2;
  byId("top-label").hidden = tab.id !== "wins";
  byId("category").value = state.category;
  byId("group").value = state.group;
  byId("top").value = state.top;
  if (byId("find").value !== state.find) byId("find").value = state.find;
  for (const select of document.querySelectorAll("#filters select")) select.value = state.only.get(select.dataset.name) ?? "";
  const wanted = boards[0].rows.filter(isWanted).length;
  byId("count").textContent = wanted === models.length ? "" : `${whole(wanted)} of ${whole(models.length)} models`;
  if (duels && byId("duel-a").options.length !== duels.n) fillDuels();
}

function fillDuels() {
  const entries = group().models.slice(0, group().duels.n).map((label, i) => [i, label]);
  for (const side of ["a", "b"]) fillSelect(byId(`duel-${side}`), entries, state[side]);
}

function startGroup() {
  fillSelect(byId("category"), group().boards.map((one, i) => [i, one.context]), state.category);
  if (hasDuels()) fillDuels();
  startMix();
}

// A filter for each column of texts that several models share.
function startFilters() {
  for (const column of metaColumns) {
    const values = [...new Set(column.values.filter((value) => typeof value === "string"))].sort();
    if (values.length < 2 || values.length > 60 || values.length === column.values.length) continue;
    const label = element("label", "", capital(column.name));
    const select = element("select");
    select.dataset.name = column.name;
    fillSelect(select, [["", "all"], ...values.map((value) => [value, value])], "");
    select.addEventListener("change", () => {
      if (select.value) state.only.set(column.name, select.value);
      else state.only.delete(column.name);
      draw();
    });
    label.append(select);
    byId("filters").append(label);
  }
}

function startControls() {
  fillSelect(byId("group"), data.groups.map((one, i) => [i, `group ${i + 1} (${whole(one.models.length)} models)`]), 0);
  fillSelect(byId("top"), [[10, "10 models"], [20, "20 models"], [40, "40 models"], [100000, "all"]], 20);
  byId("group").addEventListener("change", (event) => {
    Object.assign(state, { group: Number(event.target.value), category: 0, sort: "", a: 0, b: 1, mix: 0 });
    startGroup();
    draw({ step: true });
  });
  for (const name of ["category", "top"]) {
    byId(name).addEventListener("change", (event) => {
      state[name] = Number(event.target.value);
      draw();
    });
  }
  byId("find").addEventListener("input", (event) => {
    state.find = event.target.value;
    draw();
  });
  startFilters();
}

function startTabs() {
  for (const tab of TABS) {
    const button = element("button", "", tab.name);
    button.type = "button";
    button.id = `tab-${tab.id}`;
    button.setAttribute("role", "tab");
    button.setAttribute("aria-controls", tab.section);
    button.addEventListener("click", () => openTab(tab.id));
    byId("tabs").append(button);
    byId(tab.section).setAttribute("role", "tabpanel");
  }
  byId("tabs").addEventListener("keydown", (event) => {
    const buttons = [...byId("tabs").querySelectorAll("button:not([hidden])")];
    const at = buttons.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    const next = buttons[(to + buttons.length) % buttons.length];
    next.click();
    next.focus();
  });
}

// ---- Downloads: every row of every board, with the columns of meta.

const FIELDS = data.columns.map((column) => column.name).filter((name) => name !== "model");

function allRows() {
  return data.groups.flatMap((one, k) => one.boards.flatMap((board) => board.rows.map((row) => ({
    ...(data.groups.length > 1 ? { group: k + 1 } : {}),
    category: board.context, model: row.label, ...Object.fromEntries(FIELDS.map((name) => [name, row[name]])),
    ...Object.fromEntries(data.meta.map((column) => [column.name, column.values[row.index]])),
  }))));
}

// A cell of CSV; a text that a spreadsheet would take for a formula is quoted by an apostrophe.
function csvCell(x) {
  if (x === null || x === undefined) return "";
  const text = typeof x === "string" && /^[=+\-@\t\r]/.test(x) ? `'${x}` : `${x}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csvText(rows) {
  const names = Object.keys(rows[0]);
  return [names, ...rows.map((row) => names.map((name) => row[name]))].map((line) => line.map(csvCell).join(",")).join("\n") + "\n";
}

function save(ending, kind, text) {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  link.download = `leaderboard.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function startDownloads() {
  byId("csv").addEventListener("click", () => save("csv", "text/csv", csvText(allRows())));
  byId("json").addEventListener("click", () => {
    save("json", "application/json", JSON.stringify({ title: document.title, facts: data.facts, rows: allRows() }, null, 1));
  });
}

function startText() {
  byId("facts").append(...data.facts.map((fact) => element("li", "", fact)));
  byId("method").append(...data.method.map((paragraph) => element("p", "", paragraph)));
  const { diagnostics } = data;
  byId("diagnostics-fold").hidden = !diagnostics.length;
  const looks = diagnostics.filter((one) => one.level === "warn").length;
  byId("diagnostics-count").textContent = looks ? `${looks} to look at` : "no problems found";
  for (const { level: kind, text } of diagnostics) {
    const item = element("li");
    item.append(element("span", `badge ${kind}`, kind === "ok" ? "fine" : "look"), element("span", "", text));
    byId("diagnostics").append(item);
  }
}

for (const scroll of document.querySelectorAll(".scroll")) scroll.addEventListener("scroll", () => markOverflow(scroll));
addEventListener("resize", () => document.querySelectorAll(".scroll").forEach(markOverflow));
addEventListener("hashchange", () => {
  readState();
  startGroup();
  draw();
});

readState();
startText();
startTabs();
startControls();
startDownloads();
startGroup();
draw();
