"use strict";
// The page reads without this script. With it: tables sort, a number opens what lies behind it, rollouts play.
// Text enters the document by textContent alone.

const data = JSON.parse(document.getElementById("data").textContent);

function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null));
  return node;
}

function draw(name, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

function maths(text) {
  return text.split("d_ψ").flatMap((part, i) => (i ? ["d", make("sub", {}, "ψ"), part] : [part]));
}

function points(difference, low, high, turn) {
  const ends = low === null || high === null ? [null, null] : turn === 1 ? [low, high] : [-high, -low];
  return `${number(turn * difference)} points [${number(ends[0])}, ${number(ends[1])}]`;
}

function number(value, digits = 1) {
  return value === null || value === undefined ? "–" : value.toFixed(digits).replace("-", "−");
}

// Sorting: numbers by value, then words, and what is missing always last. The third press restores the first order.

const ORDERS = { none: "ascending", ascending: "descending", descending: "none" };

function sortKey(cell) {
  const text = cell.textContent.trim();
  if (["", "–", "not run"].includes(text)) return [2, 0, ""];
  const match = /^[−-]?\d+(,\d{3})*(\.\d+)?(?!\w)/.exec(text);
  return match ? [0, Number(match[0].replace("−", "-").replaceAll(",", "")), ""] : [1, 0, text];
}

function compare(a, b, sign) {
  if (a[0] === 2 || b[0] === 2) return a[0] - b[0];
  return sign * (a[0] - b[0] || a[1] - b[1] || a[2].localeCompare(b[2], "en"));
}

function sort(head) {
  const table = head.closest("table");
  const body = table.tBodies[0];
  table.firstOrder ??= [...body.rows];
  const order = ORDERS[head.getAttribute("aria-sort")];
  for (const other of head.parentNode.cells) other.setAttribute("aria-sort", other === head ? order : "none");
  table.classList.toggle("sorted", order !== "none");
  const rows = [...table.firstOrder];
  if (order !== "none") {
    const keys = new Map(rows.map((row) => [row, sortKey(row.cells[head.cellIndex])]));
    rows.sort((a, b) => compare(keys.get(a), keys.get(b), order === "ascending" ? 1 : -1));
  }
  body.append(...rows);
}

for (const head of document.querySelectorAll("table.sortable thead th")) {
  head.firstElementChild.addEventListener("click", () => sort(head));
}

// Finding among all cells: every word must occur.

const find = document.getElementById("find");
const listed = [...document.querySelectorAll("#cells tbody tr")];

function filter() {
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of listed) {
    const text = `${row.dataset.cell} ${row.textContent}`.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
  const shown = listed.filter((row) => !row.hidden).length;
  document.getElementById("left").textContent = words.length ? `${shown} of ${listed.length}` : "";
}

if (listed.length) {
  find.closest(".find").hidden = false;
  find.addEventListener("input", filter);
}

// One verdict only, or all again.

const only = document.querySelector(".only");
if (only) {
  only.hidden = false;
  only.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const chosen = button.getAttribute("aria-pressed") === "true" ? null : button.dataset.verdict;
    for (const other of only.querySelectorAll("button")) {
      other.setAttribute("aria-pressed", String(other.dataset.verdict === chosen));
    }
    for (const claim of document.querySelectorAll(".claims li")) {
      claim.hidden = chosen !== null && claim.dataset.verdict !== chosen;
    }
  });
}

// Behind a number: outcomes as a strip (up and blue: solved; down and orange: not), then where they come from.

function describe(cell, run, i) {
  const [episode, start, trivial] = data.pairs[cell.env][i];
  const outcome = { 1: `solved after ${run[4][i]} steps`, 0: `not solved in ${run[4][i]} steps`, ".": "no row" }[run[3][i]];
  const seeds = (run[0] ? `training seed ${run[0]}, ` : "") + `plan seed ${run[1]}`;
  return `${seeds}: episode ${episode} from step ${start}, ${outcome}${trivial ? " (solved at the start)" : ""}`;
}

function rate(run) {
  const there = [...run[3]].filter((outcome) => outcome !== ".");
  return there.length ? `${number((100 * there.filter((o) => o === "1").length) / there.length)} %` : "–";
}

function strip(cell) {
  const pairs = data.pairs[cell.env];
  const name = `Outcomes of ${cell.name}; arrow keys move through the episodes`;
  const grid = make("div", { class: "strip", tabindex: 0, role: "group", "aria-label": name });
  const said = make("p", { class: "said-of", "aria-live": "polite" }, "Point at an episode, or use the arrow keys.");
  const bars = cell.runs.map((run) => {
    const svg = draw("svg", { viewBox: `0 0 ${10 * pairs.length} 20`, preserveAspectRatio: "none", "aria-hidden": "true" });
    svg.append(draw("line", { class: "axis", x1: 0, x2: 10 * pairs.length, y1: 10, y2: 10 }));
    const drawn = [...run[3]].map((outcome, i) => {
      const kind = (outcome === "1" ? "yes" : "no") + (pairs[i][2] ? " trivial" : "");
      const place = { x: 10 * i + 1.5, y: outcome === "1" ? 1 : 10, width: 7, height: outcome === "." ? 0 : 9 };
      const bar = draw("rect", { class: kind, ...place });
      svg.append(bar);
      return bar;
    });
    const seeds = run[0] ? `training ${run[0]} · plan ${run[1]}` : `plan ${run[1]}`;
    const row = [make("span", { class: "seeds" }, seeds), svg, make("span", { class: "rate" }, rate(run))];
    grid.append(make("div", { class: "run" }, ...row));
    return drawn;
  });
  let row = 0;
  let column = -1;
  const point = (toRow, toColumn) => {
    bars[row]?.[column]?.classList.remove("here");
    row = Math.max(0, Math.min(bars.length - 1, toRow));
    column = Math.max(0, Math.min(pairs.length - 1, toColumn));
    bars[row][column].classList.add("here");
    said.textContent = describe(cell, cell.runs[row], column);
  };
  grid.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    point(row + move[0], column + move[1]);
  });
  grid.addEventListener("pointermove", (event) => {
    const svg = event.target.closest("svg");
    if (!svg) return;
    const box = svg.getBoundingClientRect();
    const index = [...grid.querySelectorAll("svg")].indexOf(svg);
    point(index, Math.floor(((event.clientX - box.left) / box.width) * pairs.length));
  });
  return [grid, said];
}

function allRows(cell) {
  const details = make("details", { class: "all-rows" }, make("summary", {}, `All ${cell.n_rows} rows`));
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    const head = ["Training seed", "Plan seed", "Episode", "Start", "Success", "Trivial", "Steps"];
    const body = make("tbody");
    for (const run of cell.runs) {
      for (let i = 0; i < run[3].length; i += 1) {
        if (run[3][i] === ".") continue;
        const [episode, start, trivial] = data.pairs[cell.env][i];
        const values = [run[0] || "–", run[1], episode, start, run[3][i] === "1" ? "yes" : "no", trivial ? "yes" : "no", run[4][i]];
        body.append(make("tr", {}, ...values.map((value) => make("td", {}, String(value)))));
      }
    }
    const heads = head.map((text) => make("th", { scope: "col" }, text));
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body);
    details.append(make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "All rows" }, table));
  });
  return details;
}

function source(file, epoch) {
  const facts = { Rows: file.path, sha256: file.sha256 };
  if (file.checkpoints?.[epoch]) facts[`Checkpoint, epoch ${epoch}`] = file.checkpoints[epoch];
  if (file.criterion) facts.Success = file.criterion;
  if (file.machine) facts.Machine = file.machine;
  const list = make("dl");
  for (const [name, value] of Object.entries(facts)) list.append(make("dt", {}, name), make("dd", {}, value));
  const node = make("div", { class: "source" }, list);
  if (file.problem) node.append(make("p", { class: "problem" }, `⚠ ${file.problem}`));
  if (file.commands?.length) {
    const items = file.commands.map((command) => make("li", {}, make("code", {}, command)));
    node.append(make("p", { class: "key" }, "Made again by"), make("ul", { class: "commands" }, ...items));
  }
  if (file.params) {
    const text = JSON.stringify(file.params, null, 1);
    node.append(make("details", {}, make("summary", {}, "Parameters"), make("pre", {}, text)));
  }
  return node;
}

function compared(id) {
  const found = data.comparisons.filter(([a, b]) => a === id || b === id);
  if (!found.length) return null;
  const body = make("tbody");
  for (const [a, b, difference, low, high] of found) {
    const turn = a === id ? 1 : -1;
    const other = a === id ? b : a;
    const link = make("a", { href: `#rows/${encodeURIComponent(id)}|${encodeURIComponent(other)}`, class: "rows" });
    link.append(points(difference, low, high, turn));
    const cells = [make("td", {}, link)];
    body.append(make("tr", {}, make("th", { scope: "row" }, ...maths(data.cells[other].name)), ...cells));
  }
  const level = `Difference [${number(100 * data.level, 0)} %]`;
  const heads = ["Against", level].map((text) => make("th", { scope: "col" }, text));
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body);
  const shown = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Paired differences" }, table);
  return make("details", { class: "compared" }, make("summary", {}, "Paired differences"), shown);
}

function one(id) {
  const cell = data.cells[id];
  const counts = `${cell.n_train_seeds} training × ${cell.n_plan_seeds} plan seeds × ${cell.n_episodes} pairs`;
  const more = `${counts}, ${cell.n_trivial} of them solved at the start. ${cell.planner === "–" ? "" : `${cell.planner}. `}`;
  const without = `Without trivial pairs ${number(cell.mean_nontrivial)}, over random actions ${number(cell.excess_over_random)}.`;
  const node = make("section", { class: "one" });
  node.append(make("p", { class: "big" }, `${cell.text} %`, make("small", {}, more + without)));
  node.append(make("h3", {}, "Every episode"));
  if (cell.runs.length) {
    node.append(make("p", { class: "key" }, "Up: solved. Down: not solved. Pale: solved already at the start."));
    node.append(...strip(cell), allRows(cell));
  } else {
    node.append(make("p", { class: "missing" }, "Its rows do not lie here."));
  }
  node.append(make("h3", {}, "Where it comes from"));
  const files = [...new Set(cell.runs.map((run) => run[2]))].sort((a, b) => a - b);
  node.append(...files.map((file) => source(data.files[file], cell.epoch)));
  node.append(compared(id) ?? "");
  return node;
}

function difference(ids) {
  const found = data.comparisons.find(([a, b]) => ids.includes(a) && ids.includes(b));
  if (!found) return "";
  const turn = found[0] === ids[0] ? 1 : -1;
  const how = `Paired by plan seed and episode.`;
  return make("p", { class: "big" }, points(found[2], found[3], found[4], turn), make("small", {}, how));
}

const dialog = document.getElementById("trace");
const heading = document.getElementById("trace-title");

function asked() {
  if (!location.hash.startsWith("#rows/")) return [];
  try {
    return location.hash.slice("#rows/".length).split("|").map(decodeURIComponent).filter((id) => Object.hasOwn(data.cells, id));
  } catch {
    return []; // somebody typed a broken address
  }
}

function route() {
  const ids = asked();
  if (!ids.length) {
    if (dialog.open) dialog.close();
    return;
  }
  heading.replaceChildren(...maths(ids.map((id) => data.cells[id].name).join(" against ")));
  const body = document.getElementById("trace-body");
  const parts = ids.map(one);
  if (ids.length === 2) {
    parts.unshift(difference(ids));
    parts.slice(1).forEach((part, i) => part.prepend(make("h3", {}, ...maths(data.cells[ids[i]].name))));
  }
  body.replaceChildren(...parts);
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  heading.focus();
}

document.getElementById("close").addEventListener("click", () => dialog.close());
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close(); // beside it
});
dialog.addEventListener("close", () => {
  if (asked().length) history.replaceState(null, "", "#");
});
addEventListener("hashchange", route);
route();

// Rollouts stand still until they are asked to move.

for (const button of document.querySelectorAll(".rollout")) {
  button.addEventListener("click", () => {
    const playing = button.getAttribute("aria-pressed") === "true";
    const image = button.querySelector("img");
    image.src = playing ? image.dataset.still : image.dataset.gif;
    button.setAttribute("aria-pressed", String(!playing));
  });
}

// Light or dark: as the system says, until the button is pressed.

const theme = document.getElementById("theme");
const root = document.documentElement;

function dark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

theme.setAttribute("aria-pressed", String(dark()));
theme.addEventListener("click", () => {
  root.dataset.theme = dark() ? "light" : "dark";
  theme.setAttribute("aria-pressed", String(dark()));
});
