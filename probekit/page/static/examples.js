"use strict";
// Examples: a grid of words by depths for each sentence, filters, and the confusion matrix.
// Rows (words, or whole texts) are numbered through all sentences; a page holds few of these.

const PER_PAGE = 10;
const MOST_CLASSES = 24; // of the confusion matrix; the rest is one class
const ORDERED = ["lost", "just-lost", "gained"]; // kinds that mean something where columns are depths

/** Return sentences as arrays: `start[s]` is the first row of sentence s. */
function unpackSentences(given) {
  const start = new Uint32Array(given.lengths.length + 1);
  given.lengths.forEach((length, place) => { start[place + 1] = start[place] + length; });
  const owner = new Uint32Array(start.at(-1));
  given.lengths.forEach((length, place) => owner.fill(place, start[place], start[place] + length));
  const lower = given.ids.map((id, place) => [id, ...[given.texts[place] ?? []].flat()].join(" ").toLowerCase());
  return { ...given, start, owner, lower, gold: unpack(given.gold, given.kind) };
}

class Examples {
  constructor(grids, sentences) {
    this.grids = grids;
    this.given = sentences;
    this.read = new Map(); // grids and sentences that were looked at
    this.form = part("filters");
    this.field = Object.fromEntries([...this.form.elements].filter((one) => one.name).map((one) => [one.name, one]));
    this.field.grid.replaceChildren(...grids.map((grid, place) =>
      element("option", { value: place }, `${grid.title} (${grid.split}, ${grid.seed})`)));
    this.listen();
    this.choose();
  }

  listen() {
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.querySelector("#start-over").addEventListener("click", () => this.restart());
    this.form.addEventListener("change", (event) => {
      if (["gold", "predicted"].includes(event.target.name)) this.others = null;
      if (event.target.name === "grid") this.choose();
      else this.filter(event.target.name === "column");
    });
    this.field.search.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.filter(), 150);
    });
    part("before").addEventListener("click", () => this.turn(-1));
    part("after").addEventListener("click", () => this.turn(1));
    document.addEventListener("keydown", (event) => this.press(event));
    part("matrix").addEventListener("keydown", (event) => this.move(event));
    addCsvButtons(document.querySelector(".pages .csv"), () => this.csv(), "matching examples");
    addCsvButtons(document.querySelector("#confusion .csv"), () => this.matrixCsv(), "confusion");
  }

  /** Take the grid that is chosen: its columns and classes become the choices of the filters. */
  choose() {
    const place = +this.field.grid.value;
    const given = this.grids[place];
    if (!this.read.has(place)) {
      const key = `sentences ${given.sentences}`;
      if (!this.read.has(key)) this.read.set(key, unpackSentences(this.given[given.sentences]));
      const sentences = this.read.get(key);
      const Judge = sentences.kind === "f4" ? ValueJudge : ClassJudge;
      this.read.set(place, { ...given, sentences, judge: new Judge(given, sentences) });
    }
    this.grid = this.read.get(place);
    this.sentences = this.grid.sentences;
    this.judge = this.grid.judge;
    this.count = this.sentences.owner.length;
    this.ofClasses = this.judge instanceof ClassJudge;
    if (this.ofClasses) this.offerClasses();
    this.field.column.replaceChildren(...this.grid.columns.map((name, column) =>
      element("option", { value: column, selected: column === this.grid.columns.length - 1 }, name)));
    document.querySelector("#filters .along").textContent = this.grid.along;
    for (const one of document.querySelectorAll("#examples [data-of]")) {
      one.hidden = one.dataset.of !== this.judge.constructor.of;
    }
    for (const option of this.field.kind.options) {
      option.hidden ||= this.grid.along !== "depth" && ORDERED.includes(option.value);
    }
    for (const field of [this.field.kind, this.field.order]) {
      if (field.selectedOptions[0].hidden) field.selectedIndex = 0;
    }
    this.filter(true);
  }

  /** Make the classes that occur the choices of the filters. */
  offerClasses() {
    const { names, gold } = this.sentences;
    const options = (numbers) => [element("option", { value: "" }, "any"),
      ...[...new Set(numbers)].sort((a, b) => a - b).map((one) => element("option", { value: one }, names[one]))];
    this.field.gold.replaceChildren(...options(gold));
    this.field.predicted.replaceChildren(...options(this.judge.predicted));
  }

  /** Return to all examples of the grid that is shown, judged at its last column. */
  restart() {
    this.form.reset();
    clearTimeout(this.typing); // a search that was typed before would be shown after it
    this.field.grid.value = this.grids.findIndex((_, place) => this.read.get(place) === this.grid);
    this.choose();
  }

  /** Find the rows that match all filters, and their sentences; the confusion is of all rows. */
  filter(otherColumn = false) {
    const column = (this.column = +this.field.column.value);
    if (otherColumn && this.ofClasses) this.countConfusions();
    const kind = this.judge.test(this.field.kind.value, column);
    const fits = this.ofClasses ? this.classTest(column) : this.errorTest(column);
    const words = this.field.search.value.trim().toLowerCase();
    this.hits = new Set();
    this.found = new Map(); // sentence to its rows that match
    for (let row = 0; row < this.count; row += 1) {
      const owner = this.sentences.owner[row];
      if (words && !this.sentences.lower[owner].includes(words)) continue;
      if (!kind(row) || !fits(row)) continue;
      this.hits.add(row);
      if (this.found.has(owner)) this.found.get(owner).push(row);
      else this.found.set(owner, [row]);
    }
    this.order = this.ordered([...this.found.keys()]);
    this.page = 0;
    if (this.ofClasses) this.markPressed();
    this.show();
  }

  /** Return what a row must be for the classes and probabilities that are asked for. */
  classTest(column) {
    const inside = (field, group) => {
      const { value } = this.field[field];
      if (group && value === "") return (number) => group.has(number);
      return value === "" ? () => true : (number) => number === +value;
    };
    const gold = inside("gold", this.others?.gold);
    const predicted = inside("predicted", this.others?.predicted);
    const [low, high] = [+this.field.low.value / 100, +this.field.high.value / 100];
    const slack = 0.5 / STRONGEST; // half a step, so that 0.90 is within "from 90 %"
    const probable = (found) =>
      (low <= 0 && high >= 1) || (found !== null && found >= low - slack && found <= high + slack);
    return (row) => gold(this.sentences.gold[row]) && predicted(this.judge.at(column, row)) &&
      probable(this.judge.probability(column, row));
  }

  /** Return what a row must be for the errors that are asked for; an empty field asks for none. */
  errorTest(column) {
    const [least, most] = [this.field.least.value, this.field.furthest.value];
    return (row) => {
      const error = this.judge.error(column, row);
      return (least === "" || error >= +least) && (most === "" || error <= +most);
    };
  }

  ordered(sentences) {
    const rank = this.judge.rank(this.field.order.value, this.column);
    if (!rank) return sentences;
    const ranks = new Map(sentences.map((one) => [one, rank(this.found.get(one))]));
    return sentences.sort((one, other) => ranks.get(one) - ranks.get(other));
  }

  get pages() { return Math.max(1, Math.ceil(this.order.length / PER_PAGE)); }

  turn(by) {
    const page = Math.min(this.pages - 1, Math.max(0, this.page + by));
    if (page === this.page) return;
    this.page = page;
    this.show();
    document.querySelector("#examples .pages").scrollIntoView({ block: "start" });
  }

  show() {
    const { ids, of } = this.sentences;
    const units = this.sentences.owner.length === ids.length ? "" : `, ${this.hits.size.toLocaleString("en")} words`;
    const held = ids.length < of ? ` (evenly spaced among ${of.toLocaleString("en")}: probekit report --examples)` : "";
    part("status").textContent =
      `${this.order.length.toLocaleString("en")} of ${ids.length.toLocaleString("en")} examples${held}${units}; ` +
      `page ${this.page + 1} of ${this.pages.toLocaleString("en")}`;
    part("before").disabled = this.page === 0;
    part("after").disabled = this.page >= this.pages - 1;
    const shown = this.order.slice(this.page * PER_PAGE, (this.page + 1) * PER_PAGE);
    part("list").replaceChildren(...shown.map((one) => this.article(one)));
  }

  article(sentence) {
    const { ids, texts, start } = this.sentences;
    const text = texts[sentence];
    const rows = range(start[sentence], start[sentence + 1]);
    const words = this.isWords(text, rows.length) ? text : null;
    const chosen = this.hits.size < this.count; // where all rows match, none of them stands out
    const shown = this.field.only.checked ? rows.filter((row) => this.hits.has(row)) : rows;
    const head = [words ? "word" : "", "gold", ...this.grid.columns].map((name, place) =>
      element("th", { scope: "col", class: place - 2 === this.column ? "judged" : null }, name));
    const body = shown.map((row) => element("tr", { class: words && chosen && this.hits.has(row) ? "hit" : null },
      element("th", { scope: "row" }, words ? this.marked(words[row - start[sentence]]) : "text"),
      element("td", { class: "gold" }, element("bdi", {}, this.judge.goldText(row))),
      ...this.grid.columns.map((name, column) => this.judge.cell(column, row, name))));
    const paragraphs = words || text === undefined ? [] : [text].flat().map((one) => element("p", {}, this.marked(one)));
    return element("article", { tabindex: -1, "data-sentence": sentence },
      element("h3", {}, `${sentence + 1}: `, element("bdi", {}, ids[sentence]), `, ${this.judge.verdict(this.column, rows)}`), ...paragraphs,
      element("div", { class: "scroll" }, element("table", { class: "grid" },
        element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body))));
  }

  /** Say whether a text is the words of its rows, and not two texts of one row. */
  isWords(text, rows) { return Array.isArray(text) && text.length === rows; }

  /** Return a text in which what is searched for is marked. */
  marked(text) {
    const words = this.field.search.value.trim().toLowerCase();
    const from = words ? text.toLowerCase().indexOf(words) : -1;
    if (from < 0 || text.toLowerCase().length !== text.length) return element("bdi", {}, text);
    const to = from + words.length;
    return element("bdi", {}, text.slice(0, from), element("mark", {}, text.slice(from, to)), text.slice(to));
  }

  /** Count gold against predicted classes; of many classes the frequent ones by themselves. */
  countConfusions() {
    const { names, gold } = this.sentences;
    const size = names.length;
    const counts = new Uint32Array(size * size);
    const seen = new Uint32Array(size);
    for (let row = 0; row < this.count; row += 1) {
      const said = this.judge.at(this.column, row);
      counts[gold[row] * size + said] += 1;
      seen[gold[row]] += 1;
      seen[said] += 1;
    }
    const used = range(0, size).filter((one) => seen[one]);
    const frequent = [...used].sort((one, other) => seen[other] - seen[one]).slice(0, MOST_CLASSES - 1);
    const kept = used.length <= MOST_CLASSES ? used : frequent.sort((one, other) => one - other);
    const rest = used.filter((one) => !kept.includes(one));
    const groups = kept.map((one) => ({ name: names[one], members: [one] }));
    if (rest.length) groups.push({ name: `${rest.length} others`, members: rest });
    this.matrix = groups.map((row) => groups.map((column) => row.members.reduce(
      (sum, one) => column.members.reduce((inner, other) => inner + counts[one * size + other], sum), 0)));
    this.groups = groups;
    this.others = null;
    this.drawMatrix();
  }

  drawMatrix() {
    const { groups, matrix } = this;
    const most = Math.max(1, ...matrix.flatMap((line, row) => line.filter((_, column) => row !== column)));
    const cell = (row, column) => {
      const count = matrix[row][column];
      const same = row === column;
      const share = count === 0 ? 0 : same ? 0.3 : 0.15 + 0.55 * Math.sqrt(count / most);
      const button = element("button", {
        type: "button", tabindex: row + column ? -1 : 0, "aria-pressed": "false",
        "data-row": row, "data-column": column,
        "aria-label": `gold ${groups[row].name}, predicted ${groups[column].name}: ${count}`,
      }, count.toLocaleString("en"));
      button.addEventListener("click", () => this.lead(row, column));
      return element("td", {
        style: `background: color-mix(in srgb, var(--${same ? "right" : "wrong"}) ${(share * 100).toFixed(0)}%, var(--ground))`,
      }, button);
    };
    const head = groups.map((one) => element("th", { scope: "col", title: one.name }, element("bdi", {}, one.name)));
    const body = groups.map((one, row) => element("tr", {},
      element("th", { scope: "row" }, element("bdi", {}, one.name)), ...groups.map((_, column) => cell(row, column))));
    part("matrix").replaceChildren(element("table", { class: "matrix" },
      element("thead", {}, element("tr", {}, element("th", {}, "gold \\ predicted"), ...head)),
      element("tbody", {}, ...body)));
  }

  /** Show the examples of a cell of the confusion matrix; a second time all of them again. */
  lead(row, column) {
    const button = this.button(row, column);
    const off = button.getAttribute("aria-pressed") === "true";
    const [gold, predicted] = [this.groups[row].members, this.groups[column].members];
    this.field.kind.value = "all";
    this.field.gold.value = off || gold.length > 1 ? "" : gold[0];
    this.field.predicted.value = off || predicted.length > 1 ? "" : predicted[0];
    this.others = off ? null : {
      gold: gold.length > 1 ? new Set(gold) : null, predicted: predicted.length > 1 ? new Set(predicted) : null,
    };
    this.filter();
    if (off) return;
    this.pressed = button;
    button.setAttribute("aria-pressed", "true");
    part("status").focus({ preventScroll: true });
    document.querySelector("#examples .pages").scrollIntoView({ block: "start" });
  }

  button(row, column) {
    return document.querySelector(`#matrix button[data-row="${row}"][data-column="${column}"]`);
  }

  /** Mark the cell whose examples are shown, if it is one. */
  markPressed() {
    for (const one of document.querySelectorAll('#matrix button[aria-pressed="true"]')) one.setAttribute("aria-pressed", "false");
    const place = (field) => this.groups.findIndex((group) =>
      group.members.length === 1 && String(group.members[0]) === this.field[field].value);
    const [row, column] = [place("gold"), place("predicted")];
    if (row >= 0 && column >= 0) this.button(row, column)?.setAttribute("aria-pressed", "true");
  }

  csv() {
    const { ids, texts, owner, start } = this.sentences;
    const rows = this.order.flatMap((sentence) => this.found.get(sentence)).map((row) => {
      const text = texts[owner[row]];
      const first = start[owner[row]];
      const word = this.isWords(text, start[owner[row] + 1] - first)
        ? text[row - first] : [text ?? ""].flat().join(" | ");
      return [ids[owner[row]], word, ...this.judge.csvCells(row)];
    });
    return csvText([["id", "text", "gold", ...this.judge.headings], ...rows]);
  }

  matrixCsv() {
    const names = this.groups.map((one) => one.name);
    return csvText([["gold", ...names], ...names.map((name, row) => [name, ...this.matrix[row]])]);
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const typing = event.target.matches?.("input, select, textarea");
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const act = {
      "/": () => this.field.search.focus(),
      n: () => this.step(1),
      p: () => this.step(-1),
      "[": () => this.turn(-1),
      "]": () => this.turn(1),
      c: () => document.querySelector("#matrix button[tabindex='0']")?.focus(),
      r: () => this.restart(),
      "?": () => part("keys").showModal(),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** Go to the next or the previous example; beyond the last one lies the next page. */
  step(by) {
    const all = [...document.querySelectorAll("#list article")];
    const here = all.indexOf(document.activeElement.closest?.("article"));
    const next = here < 0 ? (by > 0 ? 0 : all.length - 1) : here + by;
    if (all[next]) return all[next].focus();
    const page = this.page;
    this.turn(by);
    const fresh = document.querySelectorAll("#list article");
    if (page !== this.page) fresh[by > 0 ? 0 : fresh.length - 1]?.focus();
  }

  /** Arrows move in the confusion matrix; one of its cells is reached by Tab. */
  move(event) {
    const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!by || !event.target.dataset.row) return;
    event.preventDefault();
    const next = this.button(+event.target.dataset.row + by[0], +event.target.dataset.column + by[1]);
    if (!next) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}

const DATA = JSON.parse(part("data").textContent);
const examples = DATA.grids.length ? new Examples(DATA.grids, DATA.sentences) : null;
