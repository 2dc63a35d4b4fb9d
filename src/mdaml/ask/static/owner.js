"use strict";
// The figures of the owner's page, fetched anew while people answer.
const get = (id) => document.getElementById(id);
const meta = (name) => document.querySelector(`meta[name=${name}]`).content;
const root = meta("root"), SVG = "http://www.w3.org/2000/svg";
let seen = null, latest = null;

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
const round = (share) => (share === null || share === undefined ? "–" : share > 0.99 ? "over 99 %" : `${Math.round(100 * share)} %`);
const ratio = (pair) => (pair ? `${Math.round((100 * pair[0]) / pair[1])} % of ${pair[1]}` : "–");
const points = (share) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)}`;
const address = (url) => (/^https?:/.test(url) ? url : `${root}/${url}`);
const count = (n, one, many) => `${n} ${n === 1 ? one : many}`;

function fill(id, names, rows, none) {
  if (!rows.length) { get(id).replaceChildren(element("p", { className: "empty", textContent: none })); return; }
  const head = element("tr", {}, ...names.map((name) => element("th", { scope: "col", textContent: name })));
  const body = rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", { dir: typeof cell === "string" ? "auto" : "" }, ...[cell].flat()))));
  get(id).replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
}
function thumb(item) {
  const image = item.parts.find((part) => part.kind === "image");
  if (image) return element("img", { className: "thumb", src: address(image.url), alt: item.name, title: item.name, loading: "lazy" });
  const text = item.parts.find((part) => part.kind === "text");
  return element("span", { className: "chip", dir: "auto", textContent: (text ? text.text : item.name).slice(0, 40) });
}
const thumbs = (rows, items) => element("div", { className: "thumbs" }, ...rows.map((row) => thumb(items[row])));

function judge(report) {
  const { lead, gain, opposite } = report;
  if (opposite) return `Do people answer the wrong way round? The learned metric predicts ${percent(opposite.given)} of the held-out answers; if all answers are read as their opposites, it predicts ${percent(opposite.turned)}. Compare the question with what people were told.`;
  if (!lead) return report.n_held_out === undefined ? "" : `The score comes after 10 held-out answers; there are ${report.n_held_out}.`;
  const held = count(report.n_held_out, "held-out answer", "held-out answers");
  const yet = report.by_kind ? "One metric for all has no gain yet" : "No sign yet that the answers teach anything";
  if (lead[1] <= 0) return `${yet}: on ${held} the difference to Euclid is ${points(lead[0])} points (${points(lead[1])} to ${points(lead[2])}), which may be chance.`;
  const next = gain ? `About ${count(gain, "more answer", "more answers")} to gain a point.`
    : report.curve.length < 3 ? "It is too early to say how the score grows." : "The score hardly grows at present.";
  return `The answers teach: on ${held} the learned metric is ${(100 * lead[0]).toFixed(1)} points above Euclid (${(100 * lead[1]).toFixed(1)} to ${(100 * lead[2]).toFixed(1)}). ${next}`;
}
function ticks(low, high) {
  const step = high - low > 0.45 ? 0.2 : high - low > 0.2 ? 0.1 : 0.05, found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9; k += 1) found.push(k * step);
  return found;
}
function drawCurve(report) {
  const box = get("curve");
  if (!box || !report.curve || !report.curve.length) return;
  const [w, h, left, right, low, up] = [Math.max(box.clientWidth, 280), 280, 46, 72, 44, 12];
  const numbers = report.curve.map((p) => p[0]), least = Math.min(...numbers), most = Math.max(...numbers);
  const values = report.curve.flatMap((p) => p.slice(1)).concat(report.euclid[0]);
  const bottom = Math.max(0, Math.min(...values) - 0.02), top = Math.min(1, Math.max(...values) + 0.02);
  const x = (n) => left + (w - left - right) * (most === least ? 0.5 : Math.log(n / least) / Math.log(most / least));
  const y = (v) => up + ((h - low - up) * (top - v)) / (top - bottom);
  const path = (some) => some.map(([n, v], k) => `${k ? "L" : "M"}${x(n).toFixed(1)},${y(v).toFixed(1)}`).join("");
  const line = report.curve.map((p) => [p[0], p[1]]), last = report.curve[report.curve.length - 1];
  const band = report.curve.map((p) => [p[0], p[3]]).concat(report.curve.map((p) => [p[0], p[2]]).reverse());
  const told = [];
  for (const n of [...numbers].reverse()) if (!told.length || x(told[told.length - 1]) - x(n) > 34) told.push(n);
  // Two labels at the right end, at least a line of text apart.
  const [ours, plain] = [y(last[1]), y(report.euclid[0])];
  const shift = Math.max(0, 16 - Math.abs(ours - plain)) / 2, sign = ours <= plain ? -1 : 1;
  const name = `Learning curve: ${percent(last[1])} after ${last[0]} answers, Euclid ${percent(report.euclid[0])}`;
  box.replaceChildren(draw("svg", { viewBox: `0 0 ${w} ${h}`, width: w, height: h, role: "img", "aria-label": name },
    ...ticks(bottom, top).flatMap((v) => [
      draw("path", { class: "grid", d: `M${left},${y(v)}H${w - right}` }),
      draw("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" }, `${Math.round(100 * v)} %`)]),
    draw("path", { class: "band", d: `${path(band)}Z` }),
    draw("path", { class: "euclid", d: `M${left},${plain}H${w - right}` }),
    draw("path", { class: "line", d: path(line) }),
    ...line.map(([n, v]) => draw("circle", { class: "dot", cx: x(n), cy: y(v), r: 4 }, draw("title", {}, `${percent(v)} after ${n} answers`))),
    draw("text", { class: "ours", x: w - right + 10, y: ours + 4 + sign * shift }, "learned"),
    draw("text", { class: "plain", x: w - right + 10, y: plain + 4 - sign * shift }, "Euclid"),
    draw("path", { class: "axis", d: `M${left},${h - low}H${w - right}` }),
    ...told.map((n) => draw("text", { x: x(n), y: h - low + 18, "text-anchor": "middle" }, String(n))),
    draw("text", { x: (left + w - right) / 2, y: h - 6, "text-anchor": "middle" }, "answers learned from")));
}
// Colours of items on the map, by the share of the answers about them that fail.
const GRADES = [["none", "no answer"], ["holds", "all answers hold"], ["some", "up to a quarter fail"], ["many", "up to half fail"], ["most", "more than half fail"]];
const grade = (nFails, n) => (!n ? "none" : !nFails ? "holds" : nFails <= n / 4 ? "some" : nFails <= n / 2 ? "many" : "most");
const spots = new Map(); // items on the map, by name: they move when the model changes
function makeSpot(item) {
  const image = item.parts.find((part) => part.kind === "image");
  const parts = image ? [draw("rect", { rx: 4 }), draw("image", { href: address(image.url) })] : [draw("circle", { r: 6 }), draw("text", { y: 20, "text-anchor": "middle" })];
  return draw("g", {}, draw("title", {}), ...parts);
}
function placeSpot(spot, item, size, isCrowded) {
  const image = spot.querySelector("image");
  for (const [part, edge] of image ? [[image, 0], [spot.querySelector("rect"), 5]] : [])
    for (const [name, value] of [["x", -size / 2 - edge], ["y", -size / 2 - edge], ["width", size + 2 * edge], ["height", size + 2 * edge]]) part.setAttribute(name, value);
  if (!image) spot.querySelector("text").textContent = thumb(item).textContent.slice(0, isCrowded ? 0 : 12);
}
function drawMap(report) {
  const box = get("map");
  if (!box || !report.map) return;
  const w = Math.max(box.clientWidth, 280), h = Math.round(Math.max(w * 0.6, 320));
  const size = Math.min(64, Math.max(22, Math.sqrt((w * h) / report.map.length) * 0.5)), edge = size * 0.6 + 6;
  const svg = box.querySelector("svg") || draw("svg", { role: "img" });
  if (!svg.parentNode) box.replaceChildren(svg);
  const [nFails, n] = report.fails;
  const said = n ? `${nFails} of ${count(n, "answer", "answers")} ${nFails === 1 ? "fails" : "fail"} under the model.` : "";
  for (const [name, value] of [["viewBox", `0 0 ${w} ${h}`], ["width", w], ["height", h], ["aria-label", `Map of ${report.map.length} items. ${said}`]]) svg.setAttribute(name, value);
  const counts = {}, shown = new Set(report.map.map(([name]) => name));
  for (const [name, spot] of spots) if (!shown.has(name)) { spot.remove(); spots.delete(name); }
  for (const [name, px, py, fails, all] of report.map) {
    if (!spots.has(name)) { spots.set(name, makeSpot(report.items[name])); svg.append(spots.get(name)); }
    const spot = spots.get(name), kind = grade(fails, all);
    counts[kind] = (counts[kind] || 0) + 1;
    placeSpot(spot, report.items[name], size, w * h < 4000 * report.map.length);
    spot.setAttribute("class", `spot ${kind}`);
    spot.style.transform = `translate(${w / 2 + px * (w / 2 - edge)}px, ${h / 2 + py * (h / 2 - edge)}px)`;
    spot.querySelector("title").textContent = all ? `${name}: ${fails} of ${count(all, "answer", "answers")} ${fails === 1 ? "fails" : "fail"}` : `${name}: no answer`;
  }
  get("fails").textContent = said;
  get("legend").replaceChildren(...GRADES.filter(([kind]) => counts[kind]).map(([kind, words]) =>
    element("li", {}, element("span", { className: `swatch ${kind}` }), `${words} (${count(counts[kind], "item", "items")})`)));
  const worst = report.map.filter((place) => place[3]).sort((a, b) => b[3] / (b[4] + 2) - a[3] / (a[4] + 2)).slice(0, 8);
  fill("worst", ["Item", "Answers that fail", "Of"], worst.map(([name, , , fails, all]) => [thumb(report.items[name]), fails, all]), "No answer fails.");
}
function show(report) {
  const learned = report.curve && report.curve.length ? report.curve[report.curve.length - 1] : null;
  const figures = [["Answers", report.n_answers], ["Persons", report.persons.length]];
  if (report.kinds && report.kinds.length > 1) figures.push(["Kinds of people", report.kinds.join(" and ")]);
  if (learned) {
    figures.push(["Learned metric", percent(learned[1])], ["Euclid", percent(report.euclid[0])]);
    figures.push(["Held-out answers", report.n_held_out]);
  }
  get("figures").replaceChildren(...figures.map(([name, value]) =>
    element("div", {}, element("dt", { textContent: name }), element("dd", { textContent: value }))));
  const notes = [];
  if (report.declined) notes.push(`A newer model of ${report.declined.n_answers} answers is not used: the held-out answers speak against it.`);
  if (report.by_kind) notes.push(`People are of ${report.kinds.length} kinds, who look at different things: ${percent(report.by_kind[0])} of their answers hold under one metric for all, ${percent(report.by_kind[1])} under that of their kind, learned from others. With --kinds auto, mdaml fit learns a metric for each.`);
  const said = `${count(report.n_answers, "answer", "answers")} of ${count(report.persons.length, "person", "persons")}. ${[judge(report), ...notes].join(" ")}`;
  if (get("summary").textContent !== said) get("summary").textContent = said;
  fill("persons", ["Person", "Answers", "Estimated error", "Remark", "Same again", "As others", "Catch right", "Cannot tell", "Skipped", "Chose left", "Median time"],
    report.persons.map((p) => [p.who, p.answers, round(p.error), p.remark || "–", ratio(p.same_again), ratio(p.as_others), ratio(p.catch), p.unsure, p.skipped, ratio(p.left), p.seconds === null ? "–" : `${p.seconds.toFixed(1)} s`]),
    "Nobody has answered yet.");
  get("files").hidden = !report.n_answers;
  get("nothing").hidden = Boolean(report.n_answers);
  drawCurve(report);
  drawMap(report);
  if (!report.nearest) return;
  get("model").hidden = false;
  fill("nearest", ["Item", "Before: Euclid", "After: learned"], report.nearest.map((n) => [thumb(report.items[n.item]), thumbs(n.before, report.items), thumbs(n.after, report.items)]), "Shown when there is a model.");
  fill("again", ["Item", "was said to be more like", "than like", "by", "Probably wrong"], (report.again || []).map((a) => [...a.items.map((row) => thumb(report.items[row])), a.who, round(a.suspicion)]), "None so far.");
}
async function update() {
  try {
    const report = await (await fetch(`${root}/api/owner`)).json();
    get("failure").hidden = !report.failure;
    if (report.failure) get("failure").textContent = `The learner has stopped, and these figures are of its last run: ${report.failure} Answers are stored all the same.`;
    if (report.time && report.time !== seen) { seen = report.time; latest = report; show(report); }
  } catch { get("summary").textContent = "The server cannot be reached."; seen = null; }
  setTimeout(update, 3000);
}
let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (latest && window.innerWidth !== width) { width = window.innerWidth; drawCurve(latest); drawMap(latest); }
});
get("links").addEventListener("submit", async (event) => {
  event.preventDefault();
  const names = get("names").value.split("\n").map((name) => name.trim()).filter(Boolean);
  const headers = { "content-type": "application/json", "x-page-token": meta("token") };
  const response = await fetch(`${root}/api/links`, { method: "POST", headers, body: JSON.stringify({ names }) });
  const reply = await response.json();
  get("made").replaceChildren(...(reply.links || []).map(([name, link]) =>
    element("li", {}, `${name}: `, element("a", { href: link, textContent: link }))));
  if (reply.note) get("made").append(element("li", { className: "hint", textContent: reply.note }));
  if (!response.ok) get("made").replaceChildren(element("li", { textContent: reply.error }));
});
update();
