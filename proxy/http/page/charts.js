// The last hour as lines, by uPlot: rows that the proxy has kept, and the moment that is now.

import { bytes, clock, percent, seconds, short } from "/page/format.js";

const HOUR = 3600;
const KINDS = {
  reads: {
    stacked: true,
    lines: [["hits", "hits", "hit"], ["misses", "misses", "miss"], ["passed", "passed", "pass"]],
    written: short,
  },
  rate: { lines: [["hit_rate", "hits of all reads", "hit"]], written: percent, axis: (value) => `${Math.round(value * 100)}%`, range: [0, 1] },
  miss: { lines: [["miss_seconds", "a miss takes", "miss"], ["lag_seconds", "behind MySQL", "pass"]], written: seconds, least: 0.001 },
  memory: { lines: [["memory", "held", "hit"]], written: bytes, least: 2 ** 20 },
};
const STEPS = [1, 2, 2.5, 5, 10].flatMap((step) => [...Array(24).keys()].map((power) => step * 10 ** (power - 9))).sort((a, b) => a - b);
const BINARY_STEPS = [...Array(50).keys()].map((power) => 2 ** power);

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// `kind`: its lines, and how their values are written; `whole`: all that there is is shown, not the last hour.
export class Chart {
  constructor(id, kind) {
    this.kind = kind;
    this.root = document.getElementById(id);
    this.plot = this.root.querySelector(".plot");
    this.values = []; // of each line, as they are; what is drawn may be stacked
    this.data = [[]];
    this.legend = kind.lines.map(([, label, dot]) => {
      const entry = document.createElement("span"), mark = document.createElement("i"), value = document.createElement("b");
      mark.className = `dot-${dot}`;
      entry.append(mark, label, " ", value);
      this.root.querySelector(".legend").append(entry);
      return value;
    });
    this.plot.setAttribute("role", "img");
    this.build();
    new ResizeObserver(() => this.size()).observe(this.plot);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.build());
  }

  size() {
    const { clientWidth: width, clientHeight: height } = this.plot;
    if (width > 0 && (width !== this.u.width || height !== this.u.height)) this.u.setSize({ width, height });
  }

  build() {
    this.u?.destroy();
    const { kind } = this;
    const axis = { stroke: color("--dim"), font: "11px system-ui, sans-serif", ticks: { show: false }, grid: { stroke: color("--line"), width: 1 } };
    const order = kind.stacked ? [...kind.lines.keys()].reverse() : [...kind.lines.keys()]; // the largest sum is drawn first
    this.order = order;
    this.u = new uPlot({
      width: Math.max(this.plot.clientWidth, 120), height: Math.max(this.plot.clientHeight, 80),
      legend: { show: false }, padding: [8, 26, 0, 0],
      cursor: { y: false, points: { size: 7 }, drag: { setScale: false, x: false, y: false }, sync: { key: kind.sync ?? "hour" } },
      scales: { x: { time: true }, y: { range: kind.range ? () => kind.range : (u, low, high) => [0, high > 0 ? high * 1.08 : kind.least ?? 1] } },
      axes: [
        { ...axis, space: 70, size: 24, values: (u, at) => at.map((one) => this.when(one, u.scales.x.max - u.scales.x.min)) },
        { ...axis, size: 64, space: 26, incrs: kind.written === bytes ? BINARY_STEPS : STEPS, values: (u, at) => at.map(kind.axis ?? kind.written) },
      ],
      series: [{}, ...order.map((line) => ({
        stroke: color(`--${kind.lines[line][2]}`), width: 1.6, points: { show: false },
        fill: kind.lines.length === 1 || kind.stacked ? color(`--${kind.lines[line][2]}-fill`) : undefined,
      }))],
      bands: kind.stacked ? [{ series: [1, 2] }, { series: [2, 3] }] : [],
      hooks: { setCursor: [(u) => this.told(u.cursor.idx)] },
    }, this.data, this.plot);
  }

  put(at, columns) {
    const { kind } = this;
    this.values = kind.lines.map(([name]) => columns[name]);
    let drawn = this.values;
    if (kind.stacked) {
      let below = at.map(() => 0);
      drawn = this.values.map((line) => (below = line.map((value, place) => value + below[place])));
    }
    this.at = at;
    this.data = [at, ...this.order.map((line) => drawn[line])];
    this.u.setData(this.data, false);
    const now = at[at.length - 1];
    const from = kind.whole ? Math.min(at[0], now - 1) : Math.max(now - HOUR, Math.min(at[0], now - 120));
    this.u.setScale("x", { min: from, max: now });
    this.told(this.u.cursor.idx);
  }

  when(at, span) { // of a day and more with the day
    if (span > 86400 && this.kind.clock) return this.kind.clock(at);
    return span > 600 ? clock(at).slice(0, 5) : clock(at);
  }

  told(place) {
    if (!this.values.length) return;
    const hovered = place !== null && place !== undefined;
    const at = hovered ? place : this.values[0].length - 1;
    this.kind.lines.forEach((line, number) => {
      const value = this.values[number][at];
      const text = value === null || value === undefined ? "–" : this.kind.written(value);
      if (this.legend[number].textContent !== text) this.legend[number].textContent = text;
    });
    const when = hovered || this.kind.whole ? `at ${(this.kind.clock ?? clock)(this.at[at])}` : "now";
    this.plot.setAttribute("aria-label", `${this.kind.title ?? "Lines of the last hour"}; ${when}: ${this.kind.lines.map(([, label], number) => `${label} ${this.legend[number].textContent}`).join(", ")}`);
  }
}

export function charts() {
  const all = Object.entries(KINDS).map(([name, kind]) => new Chart(`chart-${name}`, kind));
  return (overview) => {
    const { columns, rows } = overview.history;
    const { rates } = overview;
    const now = {
      at: overview.at, hits: rates.hits, misses: rates.misses, passed: rates.passed, hit_rate: rates.hit_rate,
      miss_seconds: rates.miss_seconds, memory: overview.memory.used, lag_seconds: overview.source.lag_seconds,
    };
    const last = rows.length ? rows[rows.length - 1][0] : 0;
    const found = Object.fromEntries(columns.map((name, place) => [name, rows.map((row) => row[place])]));
    for (const name of Object.keys(now)) {
      found[name] ??= [];
      if (now.at > last) found[name].push(now[name]);
    }
    const none = found.at.map((at, place) => !(found.hits[place] + found.misses[place] + found.passed[place]));
    found.hit_rate = found.hit_rate.map((value, place) => (none[place] ? null : value));
    found.miss_seconds = found.miss_seconds.map((value) => value || null);
    for (const chart of all) chart.put(found.at, found);
  };
}
