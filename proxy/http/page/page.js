// The page: follows the overview and shows it. Changes nothing but by the button that makes a cache.

import { Access } from "/page/access.js";
import { Caches, causes } from "/page/caches.js";
import { charts } from "/page/charts.js";
import { bytes, bytesParts, count, element, facts as toldFacts, figure, percent, placed, put, seconds, secondsParts, short } from "/page/format.js";
import { follow, merged } from "/page/stream.js";

const by = (id) => document.getElementById(id);
const KEY = "upwell-token";
const MOST_BARS = 12;
let overview = null;

// -- the token -----------------------------------------------------------------------------------------------------

const token = () => sessionStorage.getItem(KEY);
const authorization = () => (token() ? { Authorization: `Bearer ${token()}` } : {});

function asked(why) { // for the token; null where there is none to be had
  const dialog = by("ask"), input = by("ask-token");
  put(by("ask-why"), why);
  input.value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "given" && input.value ? input.value.trim() : null), { once: true });
  });
}

by("ask-form").addEventListener("submit", (event) => { event.preventDefault(); by("ask").close("given"); });
by("ask-cancel").addEventListener("click", () => by("ask").close(""));

async function called(path, options = {}) {
  const response = await fetch(path, { ...options, headers: { ...options.headers, ...authorization() }, cache: "no-store" });
  const answer = response.status === 204 ? null : await response.json().catch(() => null);
  if (!response.ok) throw Object.assign(new Error(answer?.error?.message ?? `status ${response.status}`), { status: response.status });
  return answer;
}

let toasting = 0;
function toast(text) {
  const node = by("toast");
  node.textContent = text;
  node.classList.add("shown");
  clearTimeout(toasting);
  toasting = setTimeout(() => node.classList.remove("shown"), 5000);
}

by("token").addEventListener("click", async () => {
  if (token()) sessionStorage.removeItem(KEY);
  else {
    const given = await asked("With the token of the gRPC listener the page shows the texts of queries, and makes caches. It stays in this tab.");
    if (!given) return;
    sessionStorage.setItem(KEY, given);
  }
  access.again();
  again();
});

// -- what is shown -------------------------------------------------------------------------------------------------

const caches = new Caches(called);
const access = new Access(called);
let lines = null;

function tiles() {
  const { rates, reads, memory, source, upqueries, connections } = overview;
  const all = Object.values(overview.caches);
  const lately = rates.reads > 0;
  put(by("hit-rate"), lately ? percent(rates.hit_rate) : reads.hits + reads.misses + reads.passed ? percent(reads.hit_rate) : "–");
  const any = reads.hits + reads.misses + reads.passed > 0;
  put(by("hit-rate-note"), lately ? `${percent(reads.hit_rate)} since the start` : any ? "since the start; no reads now" : "no read has come yet");
  put(by("reads"), short(rates.reads));
  put(by("reads-note"), `${short(rates.hits)} hits, ${short(rates.misses)} misses, ${short(rates.passed)} passed`);
  const saved = all.reduce((sum, cache) => sum + cache.saved_seconds, 0);
  figure(by("saved"), saved, secondsParts);
  put(by("saved-note"), `by ${count(all.length)} ${all.length === 1 ? "cache" : "caches"}; an estimate`);
  figure(by("miss"), rates.miss_seconds, secondsParts);
  put(by("miss-note"), `${count(upqueries.in_flight)} upqueries in flight, ${count(upqueries.waiting)} waiting`);
  figure(by("lag"), 1, () => (source.lag_seconds < 0.001 ? ["< 1", "ms"] : secondsParts(source.lag_seconds)));
  put(by("lag-note"), source.visible_p99_seconds ? `commits show after ${seconds(source.visible_p50_seconds)}, p99 ${seconds(source.visible_p99_seconds)}` : "no commit has concerned a cache");
  figure(by("memory"), memory.used, bytesParts);
  put(by("memory-note"), `of ${bytes(memory.limit)}; ${count(connections.sessions)} sessions`);
  const part = memory.limit ? memory.used / memory.limit : 0;
  by("memory-bar").style.width = `${Math.min(100, 100 * part)}%`;
  by("memory-bar").classList.toggle("full", part > 0.9);
}

function emptied() { // of all caches, what emptied the most keys first
  const found = new Map();
  for (const cache of Object.values(overview.caches)) {
    for (const [what, keys] of causes(cache)) found.set(what, (found.get(what) ?? 0) + keys);
  }
  return [...found].sort((one, other) => other[1] - one[1]).slice(0, MOST_BARS);
}

function bars(id, entries) {
  const list = by(`${id}-list`);
  const most = Math.max(1, ...entries.map(([, value]) => value));
  const text = JSON.stringify(entries);
  by(`${id}-empty`).hidden = entries.length > 0;
  if (list.dataset.text === text) return;
  list.dataset.text = text;
  list.replaceChildren(...entries.map(([name, value]) => {
    const bar = element("i");
    bar.style.width = `${(100 * value) / most}%`;
    return element("li", {}, element("span", {}, name), element("b", {}, count(value)), element("div", { class: "bar", "aria-hidden": "true" }, bar));
  }));
}

function facts() {
  const { source, connections, counters } = overview;
  const told = [
    ["Address", source.address],
    ["Server", source.server_version],
    ["Connections", `${connections.source}, of which ${connections.running} work; ${overview.upqueries.held_back} held back`],
    ["Upqueries", `${count(overview.upqueries.sent)} sent`],
    ["Transactions", `${count(counters.transactions)} read, ${count(counters.records_applied ?? 0)} changes applied`],
    ["Event loop", `${seconds(overview.loop_late_seconds)} late on average`],
    ["Position", source.position],
  ];
  toldFacts(by("source-facts"), told);
}

function servers() { // a line for each shard; one for MySQL
  const { source, connections, at } = overview;
  const shards = Object.entries(source.shards);
  const lines = shards.map(([name, shard]) => [name, lag(shard.lag_seconds), shard.last_at ? `${seconds(Math.max(0, at - shard.last_at))} ago` : "–", count(shard.running), shard.position]);
  if (!shards.length) lines.push(["MySQL", lag(source.lag_seconds), "", `${count(connections.running)} of ${count(connections.source)}`, ""]);
  put(by("servers-name"), shards.length ? "Shard" : "Server");
  by("servers-last").hidden = !shards.length;
  const text = JSON.stringify(lines);
  const body = by("servers-body");
  if (body.dataset.text === text) return;
  body.dataset.text = text;
  body.replaceChildren(...lines.flatMap(([name, late, last, running, position]) => [
    element("tr", {},
      element("th", { scope: "row" }, name),
      element("td", { class: "number" }, late),
      ...(shards.length ? [element("td", { class: "number" }, last)] : []),
      element("td", { class: "number" }, running)),
    ...(position ? [element("tr", { class: "position" }, element("td", { colspan: 4 }, position))] : []),
  ]));
}

const lag = (late) => (late < 0.001 ? "< 1 ms" : seconds(late));

function queries() {
  const found = overview.queries;
  const empty = by("queries-empty");
  put(empty, found ? "No read has passed that a cache is not for." : "Their texts are shown with the token.");
  empty.hidden = Boolean(found?.length);
  by("queries-table").hidden = !found?.length;
  put(by("queries-count"), found?.length ? count(found.length) : "");
  const body = by("queries-body");
  if (!found || body.shown === found) return;
  body.shown = found;
  const most = Math.max(...found.map((query) => query.total_ms), 1e-9);
  const before = passing;
  passing = new Map();
  placed(body, found.map((query) => {
    const key = JSON.stringify([query.database, query.query]);
    const row = before.get(key) ?? passingRow(query);
    passing.set(key, row);
    row.write(query, most);
    return row.line;
  }));
}

let passing = new Map(); // rows by database and text

function passingRow({ query: text, database }) {
  const bar = element("i", { class: "dot-pass" }), button = element("button", { type: "button", class: "loud", "aria-label": `Make a cache of ${text}` }, "Make a cache");
  const time = document.createTextNode(""), reads = element("td", { class: "number minor", "data-name": "Reads" }), median = element("td", { class: "number minor", "data-name": "Median" });
  const why = element("td", { class: "why" }), last = element("td", { class: "number" });
  const line = element("tr", {},
    element("th", { scope: "row", class: "query" }, element("span", { title: text }, text), database ? element("small", {}, database) : ""),
    element("td", { class: "number", "data-name": "MySQL’s time" }, time, element("div", { class: "split", "aria-hidden": "true" }, bar)),
    reads, median, why, last);
  button.addEventListener("click", () => create({ query: text, database }, button));
  function write(query, most) {
    const made = query.reason.startsWith("cached as"), can = query.cacheable === "yes" && !made;
    bar.style.width = `${(100 * query.total_ms) / most}%`;
    put(time, seconds(query.total_ms / 1000));
    put(reads, count(query.count));
    put(median, seconds(query.p50_us / 1e6));
    put(why, can ? `can be cached (${query.reason})` : query.reason);
    if (!can) button.remove();
    else if (!button.parentNode) last.append(button);
  }
  return { line, write };
}

async function create(query, button) {
  const request = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ sql: query.query, database: query.database }) };
  button.disabled = true;
  try {
    let made;
    try {
      made = await called("/v1/caches", request);
    } catch (error) {
      if (error.status !== 401) throw error;
      sessionStorage.removeItem(KEY);
      const given = await asked(`Making a cache needs the token of the gRPC listener, which stays in this tab. The proxy says: ${error.message}.`);
      if (!given) return;
      sessionStorage.setItem(KEY, given);
      try {
        made = await called("/v1/caches", request);
      } catch (second) {
        if (second.status === 401) sessionStorage.removeItem(KEY);
        throw second;
      }
      again();
    }
    toast(`Cache ${made.name} is made: ${made.mode}`);
  } catch (error) {
    toast(error.message);
  } finally {
    button.disabled = false;
  }
}

function fills() {
  by("fills").hidden = !overview.fills.length;
  by("fills-list").replaceChildren(...overview.fills.map((fill) => {
    const bar = element("i");
    bar.style.width = `${fill.keys ? (100 * (fill.held + fill.left)) / fill.keys : 0}%`;
    const left = fill.seconds_left ? `; ${seconds(fill.seconds_left)} left` : "";
    return element("li", {}, element("b", {}, fill.cache), ` ${fill.stage}: ${count(fill.held)} of ${count(fill.keys)} keys, ${count(fill.rows)} rows${left}`, element("div", { class: "bar", "aria-hidden": "true" }, bar));
  }));
}

function notice() {
  const node = by("notice");
  const told = !overview.source.up ? "MySQL cannot be reached: hits are served as long as --max-staleness allows." : overview.ready ? `Not ready: ${overview.ready}` : "";
  node.hidden = !told;
  put(node, told);
}

function show() {
  const { source } = overview;
  put(by("source"), `beside ${source.address} · ${source.server_version}`);
  put(by("version"), overview.version);
  const button = by("token");
  put(button, token() ? "Forget the token" : "Give the token");
  if (token() && !overview.queries) {
    sessionStorage.removeItem(KEY);
    toast("That is not the token of this proxy.");
  }
  notice();
  tiles();
  fills();
  caches.put(overview.caches, overview.at);
  queries();
  bars("passed", Object.entries(overview.reads.by_reason).filter(([, value]) => value).sort((one, other) => other[1] - one[1]));
  bars("emptied", emptied());
  facts();
  servers();
  access.put(overview);
  lines ??= charts();
  lines(overview);
}

const again = follow({
  authorization,
  told(kind, data) {
    if (kind === "overview") {
      if (overview && overview.version !== data.version) return location.reload(); // its own page goes with another proxy
      overview = data;
    } else if (kind === "patch") overview = merged(overview, data);
    else if (kind === "sample") {
      const most = Math.ceil(3600 / overview.history.every);
      overview = { ...overview, history: { ...overview.history, rows: [...overview.history.rows, ...data].slice(-most) } };
    } else return;
    show();
  },
  state(connected, why) {
    const node = by("live");
    put(node, connected ? "live" : why ? `The proxy says: ${why}; trying again` : "The proxy does not answer; trying again");
    node.classList.toggle("on", connected);
    node.classList.toggle("off", !connected);
    document.documentElement.classList.toggle("stale", !connected);
  },
});
