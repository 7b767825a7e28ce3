// A plan as SVG: tables to the left, what is held of them in the middle, the reader to the right.

const NAMESPACE = "http://www.w3.org/2000/svg";
const CHARACTER = 7.3, LINE = 16, PAD = 12, GAP = 16, BETWEEN = 104, WIDEST = 34;
const OF = { table: "table", arrangement: "held", answers: "held answers", reader: "reader" };
const COLUMN = { table: 0, arrangement: 1, answers: 1, reader: 2 };

function svg(name, attributes, ...children) {
  const made = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function lines(label) { // broken behind commas, where it is too long
  const parts = label.match(/[^,(]*[,(]?\s?/g).filter(Boolean);
  const found = [""];
  for (const part of parts) {
    const last = found.length - 1;
    if (found[last] && found[last].length + part.trimEnd().length > WIDEST) found.push("  " + part);
    else found[last] += part;
  }
  return found.map((line) => (line.length > WIDEST + 8 ? line.slice(0, WIDEST + 7) + "…" : line.trimEnd()));
}

export function drawn(plan) {
  const boxes = new Map();
  const columns = [[], [], []];
  for (const node of plan.nodes) {
    const text = lines(node.label);
    const width = Math.max(...text.map((line) => line.length), OF[node.kind].length) * CHARACTER + 2 * PAD;
    const box = { node, text, width, height: (text.length + 1) * LINE + PAD };
    boxes.set(node.id, box);
    columns[COLUMN[node.kind]].push(box);
  }
  const tall = columns.map((column) => column.reduce((sum, box) => sum + box.height + GAP, -GAP));
  const height = Math.max(...tall);
  let x = 1;
  columns.forEach((column, number) => {
    const widest = Math.max(0, ...column.map((box) => box.width));
    let y = (height - tall[number]) / 2 + 1;
    for (const box of column) {
      Object.assign(box, { x, y, width: widest });
      y += box.height + GAP;
    }
    x += widest + (number < 2 && column.length ? BETWEEN : 0);
  });
  const shapes = [];
  for (const edge of plan.edges) {
    const from = boxes.get(edge.source), to = boxes.get(edge.target);
    const [x1, y1, x2, y2] = [from.x + from.width, from.y + from.height / 2, to.x - 7, to.y + to.height / 2];
    const bend = (x2 - x1) / 2;
    shapes.push(svg("path", { class: edge.whole ? "edge whole" : "edge", d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, "marker-end": "url(#arrow)" }));
    if (edge.label) shapes.push(svg("text", { class: "of", x: x1 + 8, y: y2 < y1 ? y1 + 15 : y1 - 6 }, edge.label.length > 16 ? edge.label.slice(0, 15) + "…" : edge.label));
  }
  for (const { node, text, x, y, width, height } of boxes.values()) {
    const group = svg("g", { class: node.kind }, svg("rect", { x, y, width, height, rx: node.kind === "reader" ? 16 : 7 }));
    group.append(svg("text", { class: "of", x: x + PAD, y: y + LINE }, OF[node.kind]));
    text.forEach((line, number) => group.append(svg("text", { x: x + PAD, y: y + LINE * (number + 2), "xml:space": "preserve" }, line)));
    group.append(svg("title", {}, node.label));
    shapes.push(group);
  }
  const arrow = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 1, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8z" }));
  const told = `Plan: ${plan.nodes.map((node) => `${OF[node.kind]} ${node.label}`).join("; ")}`;
  const width = x + 1;
  return svg("svg", { viewBox: `0 0 ${width} ${height + 2}`, width, height: height + 2, role: "img", "aria-label": told }, svg("defs", {}, arrow), ...shapes);
}
