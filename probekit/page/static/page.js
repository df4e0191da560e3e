"use strict";
// Elements made of text alone, tables as CSV on the clipboard or in a file, the theme, and the keys.

const part = (id) => document.getElementById(id);

/** Return a new element; texts in `children` become text, whatever they hold. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** Return a table as RFC 4180 has it; nothing stands for what is not there. */
function csvText(rows) {
  const cell = (value) => {
    const text = String(value ?? "");
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

const tableCsv = (table) => csvText([...table.rows].map((row) => [...row.cells].map((one) => one.textContent.trim())));

/** Say something in passing, aloud as well. */
function say(text) {
  part("said").textContent = text;
  part("said").classList.add("shown");
  clearTimeout(say.timer);
  say.timer = setTimeout(() => part("said").classList.remove("shown"), 1800);
}

async function copyText(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // a page that was opened as a file may not have the clipboard
    const field = element("textarea", { style: "position:fixed;opacity:0" });
    field.value = text;
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    if (!copied) return say("The browser does not allow it: save the file instead.");
  }
  say(`${what} copied`);
}

function saveText(text, name) {
  const url = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" }));
  const file = name.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 80) || "table";
  element("a", { href: url, download: `${file}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Add buttons that copy or save what `read` returns when one of them is pressed. */
function addCsvButtons(place, read, name) {
  const copy = element("button", { type: "button", "aria-label": `Copy CSV: ${name}` }, "Copy CSV");
  const save = element("button", { type: "button", "aria-label": `Save CSV: ${name}` }, "Save CSV");
  copy.addEventListener("click", () => copyText(read(), "CSV"));
  save.addEventListener("click", () => saveText(read(), name));
  place.append(copy, save);
}

for (const place of document.querySelectorAll("[data-table]")) {
  const table = place.parentElement.querySelector("table");
  addCsvButtons(place, () => place.dataset.csv ?? tableCsv(table), place.dataset.table);
}
for (const command of document.querySelectorAll(".command")) {
  command.querySelector("button").addEventListener("click", () => copyText(command.querySelector("pre").textContent, "command"));
}
part("theme").addEventListener("change", (event) => {
  const theme = event.target.value;
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
});
part("show-keys").addEventListener("click", () => part("keys").showModal());
