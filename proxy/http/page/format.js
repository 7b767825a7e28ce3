// Numbers for people, and elements.

const DIGITS = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (value) => DIGITS.format(value);
export const short = (value) => (value < 10000 ? (value < 10 && value % 1 ? value.toFixed(1) : DIGITS.format(value)) : SHORT.format(value));

function scaled(value, steps) {
  for (const [size, unit, digits] of steps) {
    if (value >= size) {
      const number = value / size;
      return [number >= 100 ? number.toFixed(0) : number.toFixed(digits), unit];
    }
  }
  return ["0", steps[steps.length - 1][1]];
}

const BYTES = [[2 ** 40, "TiB", 1], [2 ** 30, "GiB", 1], [2 ** 20, "MiB", 1], [2 ** 10, "KiB", 1], [1, "B", 0]];
const SECONDS = [[86400, "d", 1], [3600, "h", 1], [60, "min", 1], [1, "s", 1], [1e-3, "ms", 1], [1e-6, "µs", 1]];

export const bytesParts = (value) => scaled(value, BYTES);
export const bytes = (value) => scaled(value, BYTES).join(" ");
export const secondsParts = (value) => scaled(value, SECONDS);
export const seconds = (value) => scaled(value, SECONDS).join(" ");
export const percent = (value) => (value === 1 ? "100" : Math.min(99.9, value * 100).toFixed(1)) + "%"; // whole only where nothing is missing
export const clock = (at) => new Date(at * 1000).toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

export function put(node, text) { // only what has changed is written: nothing is laid out anew
  if (node.textContent !== text) node.textContent = text;
}

export function figure(node, value, parts) { // "–" for none
  const [number, unit] = value > 0 ? parts(value) : ["–", ""];
  const text = number + "\u00a0" + unit;
  if (node.dataset.text === text) return;
  node.dataset.text = text;
  node.replaceChildren(number, ...(unit ? [element("small", {}, unit)] : []));
}

// What stays in a place is not made anew: text that somebody has selected stays selected, and a button that is being pressed is pressed.

export function placed(parent, wanted) {
  let at = parent.firstChild; // only what has moved is moved: the focus stays
  for (const node of wanted) {
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

export function facts(list, told) { // names and values
  told.forEach(([name, value], place) => {
    if (!list.children[2 * place]) list.append(element("dt"), element("dd"));
    put(list.children[2 * place], name);
    put(list.children[2 * place + 1], value);
  });
  while (list.children.length > 2 * told.length) list.lastChild.remove();
}
