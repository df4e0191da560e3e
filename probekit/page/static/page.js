"use strict";
// The page: every part from the data that lies inside it.

const DATA = JSON.parse(document.getElementById("data").textContent);
const part = (id) => document.getElementById(id);

function fillAsked() {
  part("made").textContent = `probekit ${DATA.version}, ${DATA.made}`;
  if (DATA.note) part("note").append(element("bdi", {}, DATA.note));
  for (const [name, text] of DATA.facts) {
    part("facts").append(element("dt", {}, element("bdi", {}, name)), element("dd", {}, element("bdi", {}, text)));
  }
  const columns = ["model", "task", "split", "key", "holds", "stored", "created", "verified"];
  const rows = DATA.entries.map((entry) => columns.map((name) =>
    name === "verified" ? element("bdi", { class: entry.whole === false ? "bad" : null }, entry.verified) : entry[name]));
  part("entries").append(plainTable(columns, rows));
  for (const command of DATA.commands) {
    const copy = element("button", { type: "button", "aria-label": `Copy: ${command}` }, "Copy");
    copy.addEventListener("click", () => copyText(command, "command"));
    part("commands").append(element("div", { class: "command" }, element("pre", {}, command), copy));
  }
}

function fillScores() {
  for (const table of DATA.tables) {
    const shown = plainTable(table.headings, table.rows, (_, place) => !table.words[place]);
    part("scores").append(
      element("h3", {}, element("bdi", {}, table.title)), element("div", { class: "scroll" }, shown),
      element("div", { class: "notes" }, ...table.notes.filter(Boolean).map((line) => element("p", {}, line))),
      element("div", { class: "csv" }, ...csvButtons(() => table.csv, `scores ${table.title}`)));
  }
}

function fillFigures() {
  for (const [section, figures] of d3.group(DATA.figures, (figure) => figure.section)) {
    part(section).append(element("div", { class: "figures" }, ...figures.map(pictureOf)));
  }
}

/** Leave out the parts that records hold nothing of, and lead to the others. */
function fillNavigation() {
  for (const line of DATA.absent) part("absent").querySelector("ul").append(element("li", {}, element("bdi", {}, line)));
  const held = new Set(["asked", "scores", ...DATA.figures.map((figure) => figure.section)]);
  if (DATA.grids.length) held.add("examples");
  if (DATA.absent.length) held.add("absent");
  for (const section of document.querySelectorAll("main > section")) {
    section.hidden = !held.has(section.id);
    if (section.hidden) continue;
    const title = section.querySelector("h2").textContent;
    document.querySelector("nav").append(element("a", { href: `#${section.id}` }, title));
  }
  document.querySelector(".skip").hidden = !DATA.grids.length;
}

part("theme").addEventListener("change", (event) => {
  const theme = event.target.value;
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
});
part("show-keys").addEventListener("click", () => part("keys").showModal());

fillAsked();
fillScores();
fillFigures();
fillNavigation();
const examples = DATA.grids.length ? new Examples(DATA.grids, DATA.sentences) : null;
