// The table of caches: one row each, sorted and found as asked, its details below it where it is open.

import { bytes, count, element, facts as toldFacts, percent, placed, put, seconds, short } from "/page/format.js";
import { drawn } from "/page/plan.js";

const SHOWN = 200; // rows, before all are asked for
const reads = (cache) => cache.hits + cache.misses + cache.passed;
const COLUMNS = [
  { name: "Cache", of: (cache) => cache.name, text: true },
  { name: "MySQL time saved", short: "Saved", of: (cache) => cache.saved_seconds, written: (value) => (value ? seconds(value) : "–") },
  { name: "Reads a second", short: "Reads/s", of: (cache) => cache.now ?? 0, written: short, when: "minor" },
  { name: "Hits", of: (cache) => cache.hits, written: short },
  { name: "Misses", of: (cache) => cache.misses, written: short, when: "tight" },
  { name: "Passed", of: (cache) => cache.passed, written: short, when: "tight" },
  { name: "Hit rate", of: (cache) => (reads(cache) ? cache.hits / reads(cache) : -1), written: (value) => (value < 0 ? "–" : percent(value)) },
  { name: "Hit, median", short: "Hit p50", of: (cache) => cache.hit_p50_us, written: micros, when: "minor" },
  { name: "Miss, median", short: "Miss p50", of: (cache) => cache.miss_p50_us, written: micros, when: "minor" },
  { name: "Keys that went away", short: "Emptied", of: (cache) => cache.emptied, written: short, when: "minor" },
  { name: "Of answers that a change emptied: the same again", short: "Needless", of: needless, written: (value) => (value < 0 ? "–" : percent(value)), when: "minor" },
  { name: "Keys", of: (cache) => cache.keys, written: short, when: "tight" },
  { name: "Bytes", of: (cache) => cache.bytes, written: bytes, when: "minor" },
];

function micros(value) {
  return value ? seconds(value / 1e6) : "–";
}

const sum = (of) => Object.values(of).reduce((total, one) => total + one, 0);

function needless(cache) { // the share of the answers that were compared; -1: none was
  const compared = sum(cache.compared);
  return compared ? sum(cache.needless) / compared : -1;
}

export function causes(cache) { // why its keys went away: [what, keys, table], the most first
  const found = Object.entries(cache.emptied_by).flatMap(([cause, tables]) => Object.entries(tables).map(
    ([table, keys]) => [!table ? cause : cause === "change" ? table : `${table} (${cause})`, keys, table]));
  return found.sort((one, other) => other[1] - one[1]);
}

function emptied(cache) {
  return causes(cache).map(([what, keys, table]) => {
    const compared = cache.compared[table];
    return `${what} ${count(keys)}${compared ? ` (${percent((cache.needless[table] ?? 0) / compared)} needlessly)` : ""}`;
  }).join(", ");
}

export class Caches {
  constructor(fetched) { // `fetched(path)`: the answer of a request, as JSON
    this.fetched = fetched;
    this.rows = new Map();
    this.sort = { column: 1, down: true };
    this.all = false;
    this.caches = {};
    this.body = document.getElementById("caches-body");
    this.find = document.getElementById("find");
    this.more = document.getElementById("more");
    const head = document.getElementById("caches-head");
    this.heads = COLUMNS.map((column, place) => {
      const button = element("button", { type: "button", onclick: () => this.sortBy(place) }, column.short ?? column.name);
      if (column.short) button.title = column.name;
      return element("th", { scope: "col", class: [column.text ? "" : "number", column.when ?? ""].join(" ").trim() }, button);
    });
    head.append(...this.heads);
    this.find.addEventListener("input", () => this.order());
    this.more.addEventListener("click", () => { this.all = true; this.order(); });
    this.sorted();
    addEventListener("resize", () => this.rows.forEach((row) => row.details?.firstChild.setAttribute("colspan", this.width())));
  }

  width() { // how many columns are shown: narrow windows have fewer
    return this.heads.filter((head) => getComputedStyle(head).display !== "none").length;
  }

  sortBy(column) {
    this.sort = { column, down: this.sort.column === column ? !this.sort.down : !COLUMNS[column].text };
    this.sorted();
    this.order();
  }

  sorted() {
    this.heads.forEach((head, place) => {
      if (place === this.sort.column) head.setAttribute("aria-sort", this.sort.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  put(caches, at) {
    if (at === this.at) return; // rows of the hour alone are new
    const before = this.caches;
    this.caches = caches;
    for (const [name, cache] of Object.entries(caches)) { // an object that stayed had no reads
      const old = before[name];
      cache.now = old && old !== cache && at > this.at ? Math.max(0, reads(cache) - reads(old)) / (at - this.at) : 0;
    }
    this.at = at;
    for (const [name, row] of this.rows) {
      if (!(name in caches)) {
        row.line.remove();
        row.details?.remove();
        this.rows.delete(name);
      }
    }
    for (const [name, cache] of Object.entries(caches)) {
      if (this.rows.has(name)) this.write(this.rows.get(name), cache);
    }
    this.order();
  }

  order() {
    const { column, down } = this.sort;
    const { of, text } = COLUMNS[column];
    const words = this.find.value.trim().toLowerCase();
    let found = Object.values(this.caches);
    if (words) found = found.filter((cache) => [cache.name, ...cache.tables, cache.sql ?? ""].some((one) => one.toLowerCase().includes(words)));
    const sign = down ? -1 : 1;
    found.sort((one, other) => {
      const [left, right] = [of(one), of(other)];
      const order = text ? left.localeCompare(right, "en", { numeric: true }) : left - right;
      return sign * order || one.name.localeCompare(other.name, "en", { numeric: true });
    });
    const shown = this.all ? found : found.slice(0, SHOWN);
    this.more.hidden = shown.length === found.length;
    put(this.more, `Show all ${count(found.length)} caches`);
    const wanted = [];
    for (const cache of shown) {
      let row = this.rows.get(cache.name);
      if (!row) this.rows.set(cache.name, (row = this.row(cache)));
      wanted.push(row.line);
      if (row.details) wanted.push(row.details);
    }
    placed(this.body, wanted);
    const total = Object.keys(this.caches).length;
    put(document.getElementById("caches-count"), words ? `${count(found.length)} of ${count(total)}` : total ? count(total) : "");
    const empty = document.getElementById("caches-empty");
    empty.hidden = total > 0;
    document.getElementById("caches-table").hidden = total === 0;
    this.find.parentElement.hidden = total < 2;
  }

  row(cache) {
    const name = element("button", { type: "button", class: "name", "aria-expanded": "false", onclick: () => this.toggle(row) },
      ...cache.name.split(/(?<=_)/).flatMap((part) => [part, element("wbr")]));
    const badges = element("span", { class: "badges" });
    const cells = COLUMNS.slice(1).map((column) => element("td", { class: `number ${column.when ?? ""}`.trim() }));
    const split = element("div", { class: "split", "aria-hidden": "true" }, ...["hit", "miss", "pass"].map((kind) => element("i", { class: `dot-${kind}` })));
    const line = element("tr", { class: "row" }, element("th", { scope: "row" }, name, badges), ...cells);
    const texts = cells.map((cell) => cell.appendChild(document.createTextNode("")));
    cells[5].append(split);
    const row = { name: cache.name, line, button: name, badges, texts, split, details: null };
    this.write(row, cache);
    return row;
  }

  write(row, cache) {
    COLUMNS.slice(1).forEach(({ of, written }, place) => {
      const text = written(of(cache));
      if (row.texts[place].data !== text) row.texts[place].data = text;
    });
    const all = reads(cache) || 1;
    [cache.hits, cache.misses, cache.passed].forEach((part, place) => {
      const width = `${((100 * part) / all).toFixed(2)}%`;
      if (row.split.children[place].style.width !== width) row.split.children[place].style.width = width;
    });
    const badges = [];
    if (cache.mode === "evict") badges.push(["", "evict mode"]);
    if (cache.state !== "ready") badges.push(["bad", cache.state]);
    if (cache.trust === "being checked") badges.push(["warm", "being checked"]);
    if (cache.origin === "automatic") badges.push(["", "automatic"]);
    const told = badges.map((badge) => badge[1]).join();
    if (row.badges.dataset.told !== told) {
      row.badges.dataset.told = told;
      row.badges.replaceChildren(...badges.map(([kind, text]) => element("span", { class: `badge ${kind}`.trim() }, text)));
    }
    if (row.details) this.describe(row, cache);
  }

  toggle(row) {
    const opening = !row.details;
    row.button.setAttribute("aria-expanded", String(opening));
    row.line.classList.toggle("open", opening);
    if (!opening) {
      row.details.remove();
      row.details = null;
      return;
    }
    const query = element("div"), plan = element("div", { class: "plan", tabindex: "0", role: "group", "aria-label": `Plan of ${row.name}` }), facts = element("dl", { class: "facts" });
    const left = element("div", {}, query, element("h3", {}, "Plan"), plan);
    const inside = element("div", { class: "details-in" }, left, element("div", {}, facts));
    row.details = element("tr", { class: "details" }, element("td", { colspan: this.width() }, inside));
    row.parts = { query, facts };
    row.line.after(row.details);
    this.describe(row, this.caches[row.name]);
    this.fetched(`/v1/caches/${encodeURIComponent(row.name)}/plan`).then(
      (found) => plan.replaceChildren(drawn(found)),
      (error) => plan.replaceChildren(element("p", { class: "note" }, error.message)),
    );
  }

  describe(row, cache) {
    const { query, facts } = row.parts;
    const sql = cache.sql ?? "The text is shown with the token.";
    if (query.dataset.sql !== sql) {
      query.dataset.sql = sql;
      query.replaceChildren(element("h3", {}, "Query"), element("pre", {}, sql));
    }
    const reasons = Object.entries(cache.passed_by_reason).sort((one, other) => other[1] - one[1]);
    const trust = { trusted: "trusted", "being checked": `being checked: ${count(cache.checked)} answers were MySQL’s own`, "not checked": "not checked (--verify-new-caches=off)" };
    const told = [
      ["State", [cache.state, cache.why].filter(Boolean).join(": ")],
      ["Mode", cache.mode === "evict" ? "evict: a change empties the answers that it may concern" : cache.mode === "maintain" ? "maintain: changes are applied to what is held" : ""],
      ["Trust", trust[cache.trust] ?? ""],
      ["Hits", `${count(cache.hits)}; median ${micros(cache.hit_p50_us)}, p99 ${micros(cache.hit_p99_us)}`],
      ["Misses", `${count(cache.misses)}; median ${micros(cache.miss_p50_us)}, p99 ${micros(cache.miss_p99_us)}`],
      ["Passed", reasons.length ? `${count(cache.passed)}: ${reasons.map(([reason, times]) => `${reason} ${count(times)}`).join(", ")}` : "0"],
      ["Last of these", cache.passed_why ?? ""],
      ["Emptied", emptied(cache)],
      ["Holds", `${count(cache.keys)} keys, ${bytes(cache.bytes)}`],
      ["Tables", cache.tables.join(", ")],
      ["Made by", [cache.origin, cache.account, cache.reason].filter(Boolean).join(", ")],
      ["Decided", cache.decided ?? ""],
    ].filter(([, value]) => value);
    toldFacts(facts, told);
  }
}
