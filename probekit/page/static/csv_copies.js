"use strict";
// Elements made of text alone, and tables as CSV: to the clipboard, or as a file.

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
function csvText(headings, rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [headings, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** Say something in passing, aloud as well. */
function say(text) {
  const said = document.getElementById("said");
  said.textContent = text;
  said.classList.add("shown");
  clearTimeout(say.timer);
  say.timer = setTimeout(() => said.classList.remove("shown"), 1800);
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
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Return buttons that copy or save what `read` returns when one of them is pressed. */
function csvButtons(read, name) {
  const file = `${name.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 80) || "table"}.csv`;
  const copy = element("button", { type: "button", "aria-label": `Copy CSV: ${name}` }, "Copy CSV");
  const save = element("button", { type: "button", "aria-label": `Save CSV: ${name}` }, "Save CSV");
  copy.addEventListener("click", () => copyText(read(), "CSV"));
  save.addEventListener("click", () => saveText(read(), file));
  return [copy, save];
}

/** Return a table of texts and numbers. */
function plainTable(headings, rows, isNumber = (value) => typeof value === "number") {
  const kind = (value, place) => (isNumber(value, place) ? "number" : String(value).length < 24 ? "short" : null);
  const side = (value, place) => ({ class: kind(value, place) });
  const head = headings.map((text, place) =>
    element("th", { scope: "col", ...side(rows[0]?.[place], place) }, text));
  const body = rows.map((row) => element("tr", {}, ...row.map((value, place) =>
    element("td", side(value, place), value instanceof Node ? value : element("bdi", {}, value ?? "")))));
  return element("table", { class: "plain" },
    element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
}
