"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const level = `${+(100 * data.level).toFixed(2)}%`;

  // Labels are only ever set as text, never parsed as markup.
  function element(tag, className = "", text = "") {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== "") node.textContent = text;
    return node;
  }

  const whole = (x) => x.toLocaleString("en-US");
  const percent = (x, digits = 1) => `${(100 * x).toFixed(digits)}%`;
  const chance = (x) => (x > 0.9995 && x < 1 ? ">99.9%" : x < 0.0005 && x > 0 ? "<0.1%" : percent(x));

  function formatScore(x) {
    if (x === null) return "–";
    if (data.scale === "probability") return percent(x);
    return x.toFixed(data.scale === "elo" ? 0 : 2);
  }

  const formatInterval = (row) => (row.lower === null ? "–" : `${formatScore(row.lower)} to ${formatScore(row.upper)}`);
  const spread = (row, low, high) => (!row.intervals || low === null ? "–" : low === high ? `${low}` : `${low}–${high}`);
  const isRanked = (row) => row.status === "ranked";

  // Rows of one board, from the columns that the file holds.
  function readRows(board) {
    return board.model.map((code, i) => {
      const row = { label: data.models[code], intervals: board.intervals };
      for (const name of Object.keys(board)) if (Array.isArray(board[name])) row[name] = board[name][i];
      return row;
    });
  }

  const scoreKey = (row) => row.score ?? -Infinity;
  const COLUMNS = [
    { id: "rank", head: "Rank", key: (row) => row.rank, text: (row) => row.rank ?? "–", first: 1, number: true },
    { id: "model", head: "Model", key: (row) => row.label.toLowerCase(), first: 1 },
    { id: "score", head: "Score", key: scoreKey, text: (row) => formatScore(row.score), first: -1, number: true },
    {
      id: "interval", head: `${level} interval`, key: (row) => row.lower ?? -Infinity, text: formatInterval,
      first: -1, number: true,
    },
    { id: "drawn", drawn: "drawn" },
    {
      id: "spread", head: "Rank spread", key: (row) => row.worst, text: (row) => spread(row, row.best, row.worst), first: 1,
      number: true,
    },
    {
      id: "joint", head: "Joint", key: (row) => row.rank_upper, first: 1, number: true,
      text: (row) => spread(row, row.rank_lower, row.rank_upper),
    },
    { id: "ranks", drawn: "drawn narrow" },
    { id: "tier", head: "Tier", key: (row) => row.tier, text: (row) => row.tier ?? "–", first: 1, number: true },
    { id: "battles", head: "Votes", key: (row) => row.battles, text: (row) => whole(row.battles), first: -1, number: true },
    {
      id: "win_rate", head: "Win rate", key: (row) => row.win_rate ?? -1,
      text: (row) => (row.win_rate === null ? "–" : percent(row.win_rate)), first: -1, number: true,
    },
  ];
  const state = { board: 0, column: COLUMNS[0], direction: 1, filter: "" };

  function niceStep(width) {
    const power = 10 ** Math.floor(Math.log10(width / 3));
    return power * [1, 2, 5, 10].find((factor) => width / (factor * power) <= 5);
  }

  // Linear axis of a board between ends that the file holds; intervals may go on beyond them.
  function makeAxis(ends) {
    if (!ends) return { ticks: [], place: () => 50, tickText: String };
    const start = ends[0];
    const width = ends[1] - start;
    const step = niceStep(width);
    const ticks = [];
    for (let i = Math.ceil(start / step); i * step <= start + width; i++) ticks.push(i * step);
    const digits = Math.max(0, -Math.floor(Math.log10(step)));
    const tickText = data.scale === "probability" ? (x) => percent(x, Math.max(0, digits - 2)) : (x) => x.toFixed(digits);
    return { ticks, tickText, place: (x) => (100 * (x - start)) / width };
  }

  function put(parent, className, left, width = null) {
    const node = element("span", className);
    node.style.left = `${left}%`;
    if (width !== null) node.style.width = `${width}%`;
    parent.append(node);
  }

  function drawInterval(row, axis) {
    const track = element("span", "track");
    for (const tick of axis.ticks) put(track, "tick", axis.place(tick));
    if (row.lower !== null) {
      const [from, to] = [axis.place(row.lower), axis.place(row.upper)];
      const inside = (x) => Math.min(Math.max(x, 0), 100);
      const open = (from < 0 ? " open-left" : "") + (to > 100 ? " open-right" : "");
      put(track, `bar${open}`, inside(from), inside(to) - inside(from));
    }
    const dot = row.score === null ? -1 : axis.place(row.score);
    if (dot >= 0 && dot <= 100) put(track, "dot", dot);
    return track;
  }

  function drawRanks(row, n) {
    const track = element("span", "track");
    const left = (rank) => (100 * (rank - 1)) / n;
    if (!row.intervals || !isRanked(row)) return track;
    put(track, "joint", left(row.rank_lower), left(row.rank_upper + 1) - left(row.rank_lower));
    put(track, "spread", left(row.best), left(row.worst + 1) - left(row.best));
    put(track, "dot small", left(row.rank + 0.5));
    return track;
  }

  function drawHead(axis, n) {
    const head = byId("board").tHead.rows[0];
    for (const column of COLUMNS) {
      const cell = head.querySelector(`[data-column="${column.id}"]`);
      if (column.key) {
        if (column === state.column) cell.setAttribute("aria-sort", state.direction > 0 ? "ascending" : "descending");
        else cell.removeAttribute("aria-sort");
        continue;
      }
      const line = element("span", "axis");
      const marks = column.id === "drawn"
        ? axis.ticks.map((tick) => [axis.place(tick), axis.tickText(tick)])
        : [[50 / n, "1"], [100 - 50 / n, `${n}`]];
      for (const [left, text] of marks) {
        const mark = element("span", "", text);
        mark.style.left = `${left}%`;
        line.append(mark);
      }
      cell.replaceChildren(line);
    }
  }

  function drawRow(row, axis, n) {
    const line = element("tr", !isRanked(row) ? "apart" : row.tier % 2 ? "" : "shaded");
    for (const column of COLUMNS) {
      let cell;
      if (column.id === "model") {
        cell = element("th");
        cell.scope = "row";
        cell.title = row.label;
        cell.append(element("span", "name", row.label));
        const note = [isRanked(row) ? "" : row.status, row.note].filter(Boolean).join(": ");
        if (note) cell.append(element("span", "note", note));
      } else if (column.drawn) {
        cell = element("td", column.drawn);
        cell.setAttribute("aria-hidden", "true");
        cell.append(column.id === "drawn" ? drawInterval(row, axis) : drawRanks(row, n));
      } else {
        cell = element("td", column.number ? "number" : "", `${column.text(row)}`);
      }
      line.append(cell);
    }
    return line;
  }

  function drawBoard() {
    const board = data.boards[state.board];
    const rows = readRows(board);
    const axis = makeAxis(board.axis);
    const { key } = state.column;
    const shown = rows.filter((row) => row.label.toLowerCase().includes(state.filter));
    shown.sort((p, q) => {
      const [x, y] = [key(p), key(q)];
      const order = x < y ? -state.direction : x > y ? state.direction : 0;
      return isRanked(q) - isRanked(p) || order || p.rank - q.rank; // models without a rank stay below the others
    });
    const ranked = rows.filter(isRanked).length;
    drawHead(axis, ranked);
    byId("board").tBodies[0].replaceChildren(...shown.map((row) => drawRow(row, axis, ranked)));
    byId("count").textContent = `${whole(shown.length)} of ${whole(rows.length)} models`;
    byId("board-note").replaceChildren(...board.about.map((line) => element("span", "line", line)));
  }

  function addOptions(select, labels) {
    select.append(...labels.map((label, i) => {
      const option = element("option", "", label);
      option.value = i;
      return option;
    }));
  }

  function startBoard() {
    const head = byId("board").tHead.rows[0];
    for (const column of COLUMNS) {
      const cell = element("th", column.drawn ?? (column.number ? "number" : ""));
      cell.dataset.column = column.id;
      cell.scope = "col";
      if (column.key) {
        const button = element("button", "", column.head);
        button.type = "button";
        button.addEventListener("click", () => {
          state.direction = state.column === column ? -state.direction : column.first;
          state.column = column;
          drawBoard();
        });
        cell.append(button);
      } else {
        cell.setAttribute("aria-hidden", "true");
      }
      head.append(cell);
    }
    addOptions(byId("category"), data.boards.map((board) => board.context));
    byId("category").closest("label").hidden = data.boards.length < 2;
    byId("category").addEventListener("change", (event) => {
      state.board = Number(event.target.value);
      drawBoard();
    });
    byId("filter").addEventListener("input", (event) => {
      state.filter = event.target.value.trim().toLowerCase();
      drawBoard();
    });
    drawBoard();
  }

  // Chance that model a beats model b; the file holds pairs a < b, in units of 1/10000, row by row.
  function readDuel(duel, a, b) {
    const n = data.duel_models.length;
    const [i, j] = a < b ? [a, b] : [b, a];
    const at = i * n - (i * (i + 1)) / 2 + j - i - 1;
    const units = [duel.win[at], duel.lower[at], duel.upper[at]];
    if (units.includes(null)) return null;
    const [win, lower, upper] = units.map((x) => x / 10000);
    return a < b ? { win, lower, upper } : { win: 1 - win, lower: 1 - upper, upper: 1 - lower };
  }

  function sayDuel(pair, a, b) {
    if (!pair) return "not comparable: the votes do not say";
    const { lower, upper } = pair;
    if (lower > 0.5) return `${a} is ahead`;
    if (upper < 0.5) return `${b} is ahead`;
    return "too close to call";
  }

  function drawDuel() {
    const [a, b] = [byId("duel-a"), byId("duel-b")].map((select) => Number(select.value));
    const [labelA, labelB] = [a, b].map((i) => data.models[data.duel_models[i]]);
    const body = byId("duel").tBodies[0];
    body.replaceChildren();
    if (a === b) {
      byId("duel-words").textContent = "Pick two different models.";
      return;
    }
    for (const duel of data.duels) {
      const pair = readDuel(duel, a, b);
      const name = element("th", "", duel.context);
      name.scope = "row";
      const track = element("span", "track");
      put(track, "tick", 0);
      put(track, "tick half", 50);
      put(track, "tick", 100);
      if (pair) {
        put(track, "bar", 100 * pair.lower, 100 * (pair.upper - pair.lower));
        put(track, "dot", 100 * pair.win);
      }
      const drawn = element("td", "drawn duel-cell");
      drawn.setAttribute("aria-hidden", "true");
      drawn.append(track);
      const line = element("tr");
      line.append(
        name,
        element("td", "number", pair ? chance(pair.win) : "–"),
        element("td", "number", pair ? `${chance(pair.lower)} to ${chance(pair.upper)}` : "–"),
        drawn,
        element("td", "", sayDuel(pair, labelA, labelB)),
      );
      body.append(line);
    }
    const first = data.duels[0];
    const pair = readDuel(first, a, b);
    const words = pair
      ? `${labelA} beats ${labelB} with probability ${chance(pair.win)} ` +
        `(${level} interval ${chance(pair.lower)} to ${chance(pair.upper)}).`
      : `${labelA} and ${labelB} are ${sayDuel(pair)}.`;
    byId("duel-words").textContent = `${first.context}: ${words}`;
  }

  function startDuel() {
    byId("duel-section").hidden = !data.duels.length;
    document.querySelector('nav a[href="#duel-section"]').hidden = !data.duels.length;
    if (!data.duels.length) return;
    const labels = data.duel_models.map((code) => data.models[code]);
    const selects = [byId("duel-a"), byId("duel-b")];
    selects.forEach((select, i) => {
      addOptions(select, labels);
      select.value = Math.min(i, labels.length - 1);
      select.addEventListener("change", drawDuel);
    });
    byId("swap").addEventListener("click", () => {
      [selects[0].value, selects[1].value] = [selects[1].value, selects[0].value];
      drawDuel();
    });
    byId("duel-interval").textContent = `${level} interval`;
    byId("duel-limit").hidden = labels.length === data.models.length;
    byId("duel-limit").textContent =
      `To keep this file small, only the top ${whole(labels.length)} of ${whole(data.models.length)} models can be picked.`;
    drawDuel();
  }

  function startText() {
    byId("summary").textContent = data.summary;
    byId("diagnostics-section").hidden = !data.diagnostics.length;
    document.querySelector('nav a[href="#diagnostics-section"]').hidden = !data.diagnostics.length;
    for (const { level: kind, text } of data.diagnostics) {
      const item = element("li");
      item.append(element("span", `badge ${kind}`, kind === "ok" ? "fine" : "look"), element("span", "", text));
      byId("diagnostics").append(item);
    }
    byId("method").append(...data.method.map((paragraph) => element("p", "", paragraph)));
  }

  startText();
  startBoard();
  startDuel();
})();
