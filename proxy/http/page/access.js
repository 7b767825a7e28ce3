// What the access log says, where there is one: reads over its time, how caches are used, what to warm, what to cache.

import { Chart } from "/page/charts.js";
import { count, element, percent, put, seconds, short } from "/page/format.js";

const AGAIN = 60000; // milliseconds: the proxy keeps the answer as long
const KIND = {
  stacked: true, whole: true, title: "Reads by the access log", sync: "access", written: short,
  lines: [["hits", "hits", "hit"], ["misses", "misses", "miss"], ["passed", "passed", "pass"]],
  clock: (at) => new Date(at * 1000).toLocaleString("en", { weekday: "short", hour: "2-digit", minute: "2-digit", hour12: false }),
};
const by = (id) => document.getElementById(`access-${id}`);

function bar(parts) { // [[share from 0 to 1, class]]
  return element("div", { class: "bar", "aria-hidden": "true" }, ...parts.map(([share, kind]) => {
    const part = element("i", { class: kind });
    part.style.width = `${(100 * share).toFixed(2)}%`;
    return part;
  }));
}

function list(id, lines) { // [[name, note, value, parts of the bar]]
  by(`${id}-empty`).hidden = lines.length > 0;
  by(id).replaceChildren(...lines.map(([name, note, value, parts]) => element("li", {},
    element("span", {}, name, note ? element("small", {}, note) : ""), element("b", {}, value), bar(parts))));
}

export class Access {
  constructor(fetched) { // `fetched(path)`: the answer of a request, as JSON
    this.fetched = fetched;
    this.chart = null;
    this.again();
    by("hours").addEventListener("change", () => { this.again(); this.look(); });
  }

  again() { // the next look asks
    this.asked = -Infinity;
  }

  put(overview) {
    const on = overview.access_log > 0, root = document.getElementById("access");
    root.hidden = !on;
    if (!on) return;
    this.share = overview.access_log;
    if (!overview.queries) {
      put(by("note"), "It has keys: it is shown with the token.");
      by("shown").hidden = true;
    } else if (performance.now() - this.asked >= AGAIN) this.look();
  }

  async look() {
    this.asked = performance.now();
    const asked = this.asked;
    let note;
    try {
      const found = await this.fetched(`/v1/access?hours=${by("hours").value}`);
      if (asked !== this.asked) return; // something else was asked for meanwhile
      by("shown").hidden = !found.rows;
      if (found.rows) this.draw(found);
      note = this.told(found);
    } catch (error) {
      if (asked !== this.asked) return;
      note = error.message;
    }
    put(by("note"), note);
  }

  told(found) {
    if (!found.rows) return "Nothing is readable yet: a file is complete after five minutes (--access-log-rotate).";
    const until = new Date(found.newest * 1000).toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", hour12: false });
    const proxies = found.proxies.length > 1 ? ` of ${count(found.proxies.length)} proxies` : "";
    return `${count(found.rows)} rows${proxies} until ${until}; ${percent(this.share)} of the reads are logged, so the figures are estimates.`;
  }

  draw(found) {
    this.chart ??= new Chart("access-chart", KIND);
    const [at, hits, misses, passed] = [0, 1, 2, 3].map((place) => found.reads.map((row) => row[place]));
    this.chart.put(at, { hits, misses, passed });
    const most = (values) => Math.max(...values, 1e-9);
    list("caches", found.caches.map((cache) => {
      const reads = cache.hits + cache.misses + cache.passed || 1;
      return [cache.name, cache.why, `${percent(cache.hits / reads)} of ${short(reads)}`,
        [[cache.hits / reads, "dot-hit"], [cache.misses / reads, "dot-miss"], [cache.passed / reads, "dot-pass"]]];
    }));
    const hottest = most(found.keys.map((one) => one.reads));
    list("keys", found.keys.map((one) => [one.key, one.cache, `${short(one.reads)} reads`, [[one.reads / hottest, "dot-hit"]]]));
    const saves = most(found.queries.map((one) => one.saved_seconds));
    list("queries", found.queries.map((one) => [one.query, one.database, `${seconds(one.saved_seconds)} in ${short(one.reads)}`, [[one.saved_seconds / saves, "dot-pass"]]]));
  }
}
