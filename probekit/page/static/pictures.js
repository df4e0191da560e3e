"use strict";
// Pictures: curves by Observable Plot, heatmaps as tables; each with its numbers as table and CSV.

const COLOURS = 8;
const SYMBOLS = ["circle", "square", "triangle", "diamond", "star", "cross", "wye", "diamond2", "square2", "triangle2"];
const number = (value) => (value === null || value === undefined ? "" : String(+(+value).toPrecision(4)));

/** Return the rows of a picture of curves as objects, and how each curve is drawn. */
function readCurves(figure) {
  const rows = figure.rows.map(([curve, x, y, low, high, seeds, note]) =>
    ({ curve, x, y, low, high, seeds, note }));
  const apart = new Set([...figure.dashed, ...figure.points]);
  const names = [...new Set(rows.map((row) => row.curve))];
  // what another curve is held against, or its chosen point, has that curve's colour
  const base = (name) => (apart.has(name) && name.includes(": ") ? name.slice(0, name.lastIndexOf(": ")) : name);
  const bases = [...new Set(names.map(base))];
  const style = (name) => ({
    name,
    colour: `var(--c${bases.indexOf(base(name)) % COLOURS})`,
    symbol: SYMBOLS[bases.indexOf(base(name)) % SYMBOLS.length],
    dash: figure.dashed.includes(name) ? (name.endsWith("guessing") ? "1.5 3" : "5 3") : null,
    line: !figure.points.includes(name),
    marker: !figure.dashed.includes(name),
  });
  return { rows, styles: new Map(names.map((name) => [name, style(name)])) };
}

/** Return what hovering a point says. */
function pointText(figure, row) {
  const [curve, x, y] = figure.columns;
  const interval = row.low === null ? [] : [`95 % interval: ${number(row.low)} to ${number(row.high)}`];
  const seeds = row.seeds === null ? [] : [`n: ${row.seeds} ${row.seeds === 1 ? "seed" : "seeds"}`];
  return [row.curve, `${x}: ${number(row.x)}`, `${y}: ${number(row.y)}`, ...interval, ...seeds,
    ...(row.note ? [row.note] : [])].join("\n");
}

function drawCurves(figure, width) {
  const { rows, styles } = readCurves(figure);
  const of = (name) => styles.get(name);
  const least = Math.min(...rows.map((row) => row.x).filter((x) => x > 0));
  // nothing has no place on a logarithmic axis: it stands left of all else
  const at = (x) => (figure.log && x === 0 ? least / 4 : x);
  const places = [...new Map(rows.map((row) => [at(row.x), row.x])).entries()].sort((a, b) => a[0] - b[0]);
  // bars of one amount stand beside each other, all points of a curve as far to one side
  const names = [...styles.keys()];
  const step = figure.log ? Math.min(0.12, 0.3 / Math.max(1, names.length - 1)) : 0;
  const [lowest, highest] = figure.limits;
  for (const row of rows) {
    row.place = at(row.x) * 2 ** ((names.indexOf(row.curve) - (names.length - 1) / 2) * step);
    // a wide interval reaches beyond what a score can be: it is drawn up to there
    row.from = row.low === null ? null : Math.max(row.low, lowest ?? row.low);
    row.to = row.high === null ? null : Math.min(row.high, highest ?? row.high);
  }
  const dense = !figure.log;
  const marks = [];
  for (const style of styles.values()) {
    const own = rows.filter((row) => row.curve === style.name);
    const known = own.filter((row) => row.low !== null);
    const shared = { x: "place", y: "y", stroke: style.colour };
    if (dense && style.line && !style.dash) {
      marks.push(Plot.areaY(known, { x: "place", y1: "from", y2: "to", fill: style.colour, fillOpacity: 0.14 }));
    } else if (!style.dash) {
      marks.push(Plot.ruleX(known, { x: "place", y1: "from", y2: "to", stroke: style.colour, strokeOpacity: 0.6 }));
    }
    if (style.line) {
      marks.push(Plot.lineY(own, { ...shared, strokeWidth: style.dash ? 1.2 : 1.9, strokeDasharray: style.dash }));
    }
    if (style.marker && own.length < 30) {
      const trouble = (row) => row.note !== "" && style.line && !/^(best on dev|within noise of the best)$/.test(row.note);
      const fill = (row) => (trouble(row) ? "var(--ground)" : style.colour);
      marks.push(Plot.dot(own, { ...shared, fill, symbol: style.symbol, r: style.line ? 3.4 : 5.5 }));
    }
    const best = own.filter((row) => row.note.startsWith("best on dev"));
    marks.push(Plot.dot(best, { ...shared, r: 8, strokeWidth: 1.2 }));
  }
  marks.push(Plot.tip(rows, Plot.pointer({
    x: "place", y: "y", maxRadius: 80, title: (row) => pointText(figure, row), fill: "var(--ground)", stroke: "var(--faint)",
  })));
  const whole = places.every(([, x]) => Number.isInteger(x)) && places.length <= 26;
  const ticks = figure.log || whole ? places.map(([place]) => place) : undefined;
  const shown = new Map(places.map(([place, x]) => [place, String(x)]));
  const every = Math.ceil(places.length / Math.max(4, Math.floor(width / 40)));
  return Plot.plot({
    width, height: Math.min(340, Math.max(250, width * 0.6)), marginLeft: 46, marginBottom: 40,
    style: { fontSize: "12px", fontFamily: "inherit", background: "none", color: "var(--ink)" },
    ariaLabel: figure.title,
    x: {
      type: figure.log ? "log" : "linear", base: figure.log ? 2 : undefined, label: figure.columns[1],
      ticks: ticks?.filter((_, place) => place % every === 0 || figure.log),
      tickFormat: ticks ? (place) => shown.get(place) ?? "" : undefined, inset: 8, labelArrow: "none",
    },
    y: { label: figure.columns[2], grid: true, nice: true, insetTop: 6, labelArrow: "none" },
    marks,
  });
}

/** Return the legend: each curve's line and marker beside its name. */
function legend(figure) {
  const swatch = (style) => {
    const mark = d3.create("svg:svg").attr("width", 26).attr("height", 12).attr("aria-hidden", true);
    if (style.line) {
      mark.append("path").attr("d", "M1 6H25").attr("stroke", style.colour).attr("stroke-width", 1.8)
        .attr("stroke-dasharray", style.dash);
    }
    const shape = d3[`symbol${style.symbol[0].toUpperCase()}${style.symbol.slice(1)}`] ?? d3.symbolCircle;
    if (style.marker) {
      mark.append("path").attr("transform", "translate(13 6)").attr("d", d3.symbol(shape, 36)())
        .attr("fill", style.colour).attr("stroke", style.colour);
    }
    return mark.node();
  };
  const entries = [...readCurves(figure).styles.values()].map((style) =>
    element("span", {}, swatch(style), element("bdi", {}, style.name)));
  const ringed = figure.rows.some((row) => String(row[6]).startsWith("best on dev"));
  if (ringed) entries.push(element("span", {}, "ring: best on dev"));
  return element("div", { class: "series" }, ...entries);
}

/** Return a heatmap: more than an equal part in one colour, less in the other, both with numbers. */
function drawCells(figure) {
  const layers = [...new Set(figure.rows.map((row) => row[1]))].sort((a, b) => a - b);
  const byRow = d3.group(figure.rows, (row) => row[0]);
  const equal = figure.columns[3].startsWith("times");
  const cell = ([name, layer, value, colour, half, seeds]) => {
    // doublings above an equal part, up to three; below it down to nothing
    const strength = equal ? (colour >= 1 ? Math.log2(colour) / 3 : colour - 1) : colour;
    const share = Math.min(1, Math.abs(strength));
    const hue = strength >= 0 ? "--above" : "--below";
    const about = `${name}\nlayer ${layer}: ${number(value)}` + (half === null ? "" : ` ± ${number(half)}`) +
      `\n${equal ? `${number(colour)} ${figure.columns[3]}` : ""}\nn: ${seeds} ${seeds === 1 ? "seed" : "seeds"}`;
    return element("td", {
      title: about,
      style: `background: color-mix(in srgb, var(${hue}) calc(${share.toFixed(3)} * var(--heat)), var(--ground))`,
    }, Math.abs(value) < 0.0005 ? "0" : value.toFixed(Math.abs(value) < 0.095 ? 3 : 2));
  };
  const head = layers.map((layer) => element("th", { scope: "col" }, layer === 0 ? "0 = emb" : layer));
  const body = [...byRow].map(([name, rows]) => {
    const held = new Map(rows.map((row) => [row[1], row]));
    return element("tr", {}, element("th", { scope: "row" }, element("bdi", {}, name)),
      ...layers.map((layer) => (held.has(layer) ? cell(held.get(layer)) : element("td", {}))));
  });
  return element("div", { class: "scroll" }, element("table", { class: "heat" },
    element("thead", {}, element("tr", {}, element("th", {}, "layer"), ...head)),
    element("tbody", {}, ...body)));
}

/** Return a picture with its caption and its numbers. */
function pictureOf(figure) {
  const heat = figure.kind === "cells";
  const place = element("div", { class: "plot" });
  const made = element("figure", { class: heat ? "broad" : null },
    element("h3", {}, element("bdi", {}, figure.title)), place, heat ? null : legend(figure),
    element("figcaption", {}, ...figure.caption.split("\n").map((line) => element("p", {}, line))));
  const numbers = element("details", {}, element("summary", {}, "Numbers"));
  numbers.addEventListener("toggle", () => {
    if (numbers.open && numbers.childElementCount === 1) {
      numbers.append(element("div", { class: "scroll" }, plainTable(figure.columns, figure.rows)));
    }
  });
  made.append(numbers, element("div", { class: "csv" },
    ...csvButtons(() => csvText(figure.columns, figure.rows), figure.title)));
  if (heat) {
    place.append(drawCells(figure));
  } else {
    let drawn = 0;
    new ResizeObserver(() => {
      const width = Math.round(place.clientWidth);
      if (width && width !== drawn) place.replaceChildren(drawCurves(figure, (drawn = width)));
    }).observe(place);
  }
  return made;
}
