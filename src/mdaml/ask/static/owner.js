"use strict";
// The figures of the owner's page, fetched anew while people answer.
const get = (id) => document.getElementById(id);
const meta = (name) => document.querySelector(`meta[name=${name}]`).content;
const root = meta("root"), SVG = "http://www.w3.org/2000/svg";
let seen = null;

function element(tag, values = {}, ...children) {
  const made = Object.assign(document.createElement(tag), values);
  made.append(...children);
  return made;
}
function draw(tag, values, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(values)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
const percent = (share) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)} %`);
const ratio = (pair) => (pair ? `${Math.round((100 * pair[0]) / pair[1])} % of ${pair[1]}` : "–");
const address = (url) => (/^https?:/.test(url) ? url : `${root}/${url}`);

function fill(table, names, rows) {
  const head = element("tr", {}, ...names.map((name) => element("th", { scope: "col", textContent: name })));
  const body = rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, ...[cell].flat()))));
  table.replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
}
function thumb(item) {
  const image = item.parts.find((part) => part.kind === "image");
  if (image) return element("img", { className: "thumb", src: address(image.url), alt: item.name, title: item.name });
  const text = item.parts.find((part) => part.kind === "text");
  return element("span", { textContent: `${(text ? text.text : item.name).slice(0, 40)}  ` });
}

function drawCurve(report) {
  const box = get("curve");
  if (!report.curve || !report.curve.length) {
    box.replaceChildren(element("p", { textContent: `It is drawn after 10 held-out answers; there are ${report.n_held_out || 0}.` }));
    return;
  }
  const [w, h, left, low] = [720, 300, 50, 40];
  const most = Math.max(...report.curve.map((p) => p[0])), least = Math.min(...report.curve.map((p) => p[0]));
  const values = report.curve.flatMap((p) => p.slice(1)).concat(report.euclid);
  const [bottom, top] = [Math.min(...values) - 0.02, Math.max(...values) + 0.02];
  const spanX = Math.log(most / least) || 1;
  const x = (n) => left + ((w - left - 20) * (most === least ? 0.5 : Math.log(n / least) / spanX));
  const y = (v) => 15 + ((h - low - 15) * (top - v)) / (top - bottom);
  const path = (points) => points.map(([n, v], k) => `${k ? "L" : "M"}${x(n).toFixed(1)},${y(v).toFixed(1)}`).join("");
  const line = report.curve.map((p) => [p[0], p[1]]);
  const band = report.curve.map((p) => [p[0], p[3]]).concat(report.curve.map((p) => [p[0], p[2]]).reverse());
  const last = report.curve[report.curve.length - 1];
  const svg = draw("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": `Learning curve: ${percent(last[1])} after ${last[0]} answers, Euclid ${percent(report.euclid[0])}` },
    draw("path", { class: "axis", d: `M${left},10V${h - low}H${w - 10}` }),
    draw("path", { class: "band", d: `${path(band)}Z` }),
    draw("path", { class: "euclid", d: `M${left},${y(report.euclid[0])}H${w - 20}` }),
    draw("path", { class: "line", d: path(line) }),
    ...line.map(([n, v]) => draw("circle", { class: "dot", cx: x(n), cy: y(v), r: 4 })),
    ...[bottom + 0.02, (bottom + top) / 2, top - 0.02].map((v) => draw("text", { x: 4, y: y(v) + 4 }, percent(v))),
    draw("text", { x: w - 70, y: y(report.euclid[0]) - 6 }, "Euclid"),
    draw("text", { x: x(least) - 4, y: h - low + 18 }, String(least)),
    ...(most > least ? [draw("text", { x: x(most) - 16, y: h - low + 18 }, String(most))] : []),
    draw("text", { x: w / 2 - 60, y: h - 6 }, "answers learned from"));
  box.replaceChildren(svg, element("p", { textContent: `On ${report.n_held_out} held-out answers: learned ${percent(last[1])} (${percent(last[2])} to ${percent(last[3])}), Euclid ${percent(report.euclid[0])} (${percent(report.euclid[1])} to ${percent(report.euclid[2])}). ${report.gain ? `About ${report.gain} more answers to gain a point.` : report.curve.length < 3 ? "It is too early to say how the score grows." : "The score hardly grows at present."}` }));
}
function drawMap(report) {
  if (!report.map) return;
  const [w, h, size] = [900, 620, 36];
  const svg = draw("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": "Map of the items" });
  for (const [row, px, py] of report.map) {
    const item = report.items[row], x = (w / 2) + px * (w / 2 - size), y = (h / 2) + py * (h / 2 - size);
    const image = item.parts.find((part) => part.kind === "image");
    const node = image
      ? draw("image", { href: address(image.url), x: x - size / 2, y: y - size / 2, width: size, height: size })
      : draw("text", { x, y }, thumb(item).textContent.slice(0, 16));
    node.append(draw("title", {}, item.name));
    svg.append(node);
  }
  get("map").replaceChildren(svg);
}
function show(report) {
  const learned = report.curve && report.curve.length ? report.curve[report.curve.length - 1] : null;
  const score = learned ? ` Of held-out answers the learned metric predicts ${percent(learned[1])}, Euclid ${percent(report.euclid[0])}.` : "";
  get("summary").textContent = `${report.n_answers} answers of ${report.persons.length} ${report.persons.length === 1 ? "person" : "persons"}.${score}`;
  drawCurve(report);
  fill(get("persons"), ["Person", "Answers", "Cannot tell", "Skipped", "Same again", "As others", "Catch right", "Estimated error", "Left", "Median seconds"],
    report.persons.map((p) => [p.who, p.answers, p.unsure, p.skipped, ratio(p.same_again), ratio(p.as_others), ratio(p.catch), percent(p.error), ratio(p.left), p.seconds === null ? "–" : p.seconds.toFixed(1)]));
  drawMap(report);
  const thumbs = (rows) => [rows.map((row) => thumb(report.items[row]))].flat();
  fill(get("nearest"), ["Item", "Before: Euclid", "After: learned"], (report.nearest || []).map((n) => [thumb(report.items[n.item]), thumbs(n.before), thumbs(n.after)]));
  fill(get("again"), ["Person", "Item", "was said to be more like", "than like", "Probably wrong"], (report.again || []).map((a) => [a.who, ...a.items.map((row) => thumb(report.items[row])), percent(a.suspicion)]));
}
async function update() {
  try {
    const report = await (await fetch(`${root}/api/owner`)).json();
    if (report.time && report.time !== seen) { seen = report.time; show(report); }
  } catch { get("summary").textContent = "The server cannot be reached."; }
  setTimeout(update, 3000);
}
get("links").addEventListener("submit", async (event) => {
  event.preventDefault();
  const names = get("names").value.split("\n").map((name) => name.trim()).filter(Boolean);
  const headers = { "content-type": "application/json", "x-page-token": meta("token") };
  const response = await fetch(`${root}/api/links`, { method: "POST", headers, body: JSON.stringify({ names }) });
  const reply = await response.json();
  get("made").replaceChildren(...(reply.links || []).map(([name, link]) =>
    element("li", {}, `${name}: `, element("a", { href: link, textContent: link }))));
  if (!response.ok) get("made").replaceChildren(element("li", { textContent: reply.error }));
});
update();
