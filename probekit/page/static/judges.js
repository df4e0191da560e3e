"use strict";
// What is true of a prediction, and how it is shown: of classes, which are right or wrong, and of
// values, which are some way off. Rows are numbered through all sentences.

const UNKNOWN = 255;
const STRONGEST = 254;

/** Return the whole numbers from the first up to the last, without it. */
const range = (from, to) => Array.from({ length: Math.max(0, to - from) }, (_, place) => from + place);

/** Return the numbers of a base64 text: bytes, or wider ones, whose little end comes first. */
function unpack(text, kind = "u1") {
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  if (kind === "u2") return Uint16Array.from({ length: bytes.length / 2 }, (_, n) => view.getUint16(2 * n, true));
  if (kind === "f4") return Float32Array.from({ length: bytes.length / 4 }, (_, n) => view.getFloat32(4 * n, true));
  return bytes;
}

class Judge {
  constructor(grid, sentences) {
    this.grid = grid;
    this.gold = sentences.gold;
    this.predicted = unpack(grid.predicted, sentences.kind);
  }

  at(column, row) { return this.predicted[column * this.gold.length + row]; }
}

class ClassJudge extends Judge {
  static of = "classes";

  constructor(grid, sentences) {
    super(grid, sentences);
    this.names = sentences.names;
    this.probabilities = unpack(grid.probabilities);
    this.headings = grid.columns.flatMap((name) => [`${grid.along} ${name}`, `p at ${name}`]);
  }

  right(column, row) { return this.at(column, row) === this.gold[row]; }

  probability(column, row) {
    const found = this.probabilities[column * this.gold.length + row];
    return found === UNKNOWN ? null : found / STRONGEST;
  }

  /** Return what a row must be for a kind of examples, judged at a column. */
  test(kind, column) {
    const every = range(0, this.grid.columns.length);
    const before = every.slice(0, column);
    const right = (row) => this.right(column, row);
    return {
      all: () => true,
      wrong: (row) => !right(row),
      right,
      lost: (row) => !right(row) && before.some((one) => this.right(one, row)),
      "just-lost": (row) => column > 0 && !right(row) && this.right(column - 1, row),
      gained: (row) => right(row) && before.some((one) => !this.right(one, row)),
      never: (row) => !every.some((one) => this.right(one, row)),
      differ: (row) => every.some((one) => this.at(one, row) !== this.at(0, row)),
    }[kind];
  }

  /** Return what sentences are ordered by, given those of their rows that match. */
  rank(order, column) {
    const sure = (rows) => rows.map((row) => this.probability(column, row) ?? 0);
    return {
      sure: (rows) => -Math.max(...sure(rows)),
      unsure: (rows) => Math.min(...sure(rows)),
      most: (rows) => -rows.length,
    }[order];
  }

  goldText(row) { return this.names[this.gold[row]]; }

  verdict(column, rows) {
    const wrong = rows.filter((row) => !this.right(column, row)).length;
    if (rows.length > 1) return `${wrong} of ${rows.length} wrong`;
    return wrong ? "wrong" : "right";
  }

  cell(column, row, name) {
    const probability = this.probability(column, row);
    const right = this.right(column, row) ? "right" : "wrong";
    const said = probability === null ? "probability not kept" : `probability ${probability.toFixed(2)}`;
    const predicted = this.names[this.at(column, row)];
    return element("td", {
      class: `${right}${probability === null ? " unknown" : ""}`,
      style: `--p: ${(probability ?? 0.5).toFixed(3)}`,
      title: `${this.grid.along} ${name}: ${predicted}, ${said}\ngold: ${this.goldText(row)}, ${right}`,
    }, element("bdi", {}, predicted));
  }

  csvCells(row) {
    return [this.goldText(row), ...this.grid.columns.flatMap((_, column) =>
      [this.names[this.at(column, row)], this.probability(column, row)?.toFixed(3) ?? ""])];
  }
}

class ValueJudge extends Judge {
  static of = "values";

  constructor(grid, sentences) {
    super(grid, sentences);
    this.headings = grid.columns.map((name) => `${grid.along} ${name}`);
    const errors = this.predicted.map((value, place) => Math.abs(value - this.gold[place % this.gold.length])).sort();
    this.far = errors[Math.floor(0.95 * errors.length)] || 1; // the full colour: few are further off
  }

  error(column, row) { return Math.abs(this.at(column, row) - this.gold[row]); }

  /** Return how near a row came to gold before a column. */
  nearest(column, row) { return Math.min(...range(0, column).map((one) => this.error(one, row))); }

  test(kind, column) {
    return {
      all: () => true,
      further: (row) => this.error(column, row) > this.nearest(column, row),
      nearer: (row) => column > 0 && this.error(column, row) < this.nearest(column, row),
    }[kind];
  }

  rank(order, column) {
    return {
      far: ([row]) => -this.error(column, row),
      near: ([row]) => this.error(column, row),
      fallen: ([row]) => this.nearest(column, row) - this.error(column, row),
    }[order];
  }

  goldText(row) { return shortNumber(this.gold[row]); }

  verdict(column, [row]) { return `off by ${shortNumber(this.error(column, row))}`; }

  cell(column, row, name) {
    const value = shortNumber(this.at(column, row));
    return element("td", {
      class: "value",
      style: `--p: ${Math.min(1, this.error(column, row) / this.far).toFixed(3)}`,
      title: `${this.grid.along} ${name}: ${value}\ngold: ${this.goldText(row)}, ${this.verdict(column, [row])}`,
    }, value);
  }

  csvCells(row) { return [this.gold[row], ...this.grid.columns.map((_, column) => this.at(column, row))]; }
}

/** Return a number with as many decimals as tell it from its neighbours. */
function shortNumber(value) { return Math.abs(value) < 100 ? value.toFixed(2) : value.toPrecision(4); }
