"use strict";
// Questions are shown from a short list that the server fills ahead; answers are kept in the
// browser until the server has stored them, and sent again until it has.
const page = document.getElementById("page");
const get = (id) => document.getElementById(id);
const meta = (name) => document.querySelector(`meta[name=${name}]`).content;
const form = page.dataset.form, nPicks = form === "pick" ? Number(page.dataset.pick) : 1;
const root = meta("root"), prefix = `mdaml:${page.dataset.study}:${encodeURIComponent(page.dataset.person)}:`;
const firstChoice = form === "odd" || form === "same" ? 0 : 1;
const GUARD = 150; // ms in which a second click of a double click does not count

let waiting = []; // questions to show; the first is on the page
let past = []; // answered here, the last one last, with the ids of their answers
let shown = null, shownAt = 0, pausedAt = 0, isSending = false, delay = 500, isDone = false;
let picked = new Set(), nAnswers = 0, limit = null, number = Date.now();

function makeId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");
}

function element(tag, values = {}, ...children) {
  const made = Object.assign(document.createElement(tag), values);
  made.append(...children);
  return made;
}

const storage = (() => {
  try { return window.localStorage; } catch { return null; } // blocked, for instance in a notebook
})();
// Answers that the server has not confirmed: one entry each, so that two tabs do not disturb
// each other.
function unsent() {
  const keys = Object.keys(storage || {}).filter((key) => key.startsWith(prefix)).sort();
  return keys.map((key) => [key, JSON.parse(storage.getItem(key))]);
}
function keep(event) {
  number = Math.max(number + 1, Date.now()); // grows even if the clock is set back
  const place = String(number).padStart(15, "0");
  try {
    storage.setItem(`${prefix}${place}:${event.id || event.undo}`, JSON.stringify(event));
  } catch {
    say("This browser cannot store answers. Keep the page open until they are sent.", true);
    memory.push(event);
  }
}
const memory = []; // where the browser has no room

function showPart(part, name) {
  const url = part.url && (/^https?:/.test(part.url) ? part.url : `${root}/${part.url}`);
  if (part.kind === "image") return element("img", { src: url, alt: name, draggable: false });
  if (part.kind === "audio") return element("audio", { src: url, controls: true, preload: "auto" });
  if (part.kind === "video") return element("video", { src: url, controls: true, preload: "auto", muted: true });
  if (part.kind === "numbers") {
    const rows = part.rows.map(([key, value]) =>
      element("tr", {}, element("th", { textContent: key, scope: "row" }), element("td", { textContent: value })));
    return element("table", {}, element("tbody", {}, ...rows));
  }
  return element("p", { textContent: part.text, dir: "auto" });
}
function makeCard(item, kind) {
  return element("div", { className: `card ${kind}` }, ...item.parts.map((part) => showPart(part, item.name)));
}
function makeChoice(item, place, label) {
  const card = makeCard(item, "choice");
  const button = element("button", { type: "button", textContent: label });
  if (form !== "same") button.setAttribute("aria-label", `${label}: ${item.name}`);
  card.append(button);
  card.addEventListener("click", (event) => {
    if (!event.target.closest("audio, video") && event.detail < 2) choose(place);
  });
  card.dataset.place = place;
  return card;
}
function label(place) {
  if (form === "triplet") return place === 1 ? "← Left" : "Right →";
  return String(place + 1 - firstChoice);
}
// Nodes are made before they are needed, so that pictures are there when a question is shown.
function build(question) {
  if (question.node) return;
  const node = element("div", { className: `question ${form}` });
  const items = question.items;
  if (firstChoice) node.append(makeCard(items[0], "anchor"));
  const choices = element("div", { className: "choices" });
  if (form === "same") {
    choices.append(makeCard(items[0], ""), makeCard(items[1], ""));
    const both = element("div", { className: "choices" });
    both.append(
      element("button", { type: "button", textContent: "← Same", onclick: (e) => e.detail < 2 && choose(1) }),
      element("button", { type: "button", textContent: "Different →", onclick: (e) => e.detail < 2 && choose(0) }));
    node.append(choices, both);
  } else {
    items.forEach((item, place) => place >= firstChoice && choices.append(makeChoice(item, place, label(place))));
    node.append(choices);
  }
  for (const image of node.querySelectorAll("img")) image.decode().catch(() => {});
  question.node = node;
}

function say(text, isWarning = false) {
  get("status").textContent = text;
  get("status").classList.toggle("warn", isWarning);
}

// Where a question is taller than the window, arrows scroll as they do everywhere else.
function isLong() {
  return get("stage").getBoundingClientRect().bottom + window.scrollY > window.innerHeight;
}
function hint() {
  const tall = isLong();
  get("unsure").querySelector("kbd").textContent = tall ? "0" : "↓";
  get("skip").querySelector("kbd").textContent = tall ? "s" : "↑";
}
function render() {
  // What has the focus may be replaced or switched off; who uses a keyboard must not lose the place.
  const active = document.activeElement, stage = get("stage");
  const moves = stage.contains(active) || (active === get("undo") && !past.length);
  update();
  if (moves && (!active.isConnected || active.disabled || stage.hidden)) {
    (stage.hidden ? get("note") : stage).focus({ preventScroll: true });
  }
  hint();
}
function update() {
  waiting.forEach(build);
  const next = waiting[0] || null;
  const bar = get("bar");
  bar.hidden = !limit;
  if (limit) { bar.max = limit; bar.value = Math.min(nAnswers, limit); }
  get("count").textContent = limit ? `${nAnswers} of ${limit}` : `${nAnswers} ${nAnswers === 1 ? "answer" : "answers"}`;
  get("undo").disabled = !past.length || Boolean(pausedAt);
  get("unsure").disabled = get("skip").disabled = !next || Boolean(pausedAt);
  get("actions").hidden = Boolean(pausedAt);
  get("unsure").hidden = get("skip").hidden = get("pause").hidden = isDone;
  const note = get("note");
  note.hidden = Boolean(next) && !pausedAt;
  if (pausedAt) note.textContent = "Paused. You can close this page and come back by the same link.";
  else if (isDone) note.textContent = "That was all. Thank you! You can close this page.";
  else if (!next) note.textContent = "Waiting for the next question …";
  get("stage").hidden = get("words").hidden = !next || Boolean(pausedAt);
  if (next === shown) return;
  shown = next;
  picked = new Set();
  get("stage").replaceChildren(...(next ? [next.node] : []));
  for (const card of get("stage").querySelectorAll(".picked")) card.classList.remove("picked");
  window.scrollTo(0, 0);
  shownAt = performance.now();
  document.dispatchEvent(new Event("shown"));
}

function choose(place) {
  if (!shown || pausedAt || performance.now() - shownAt < GUARD) return;
  if (nPicks === 1) return finish("answer", [place]);
  const card = shown.node.querySelector(`[data-place="${place}"]`);
  if (!card) return;
  if (picked.delete(place)) card.classList.remove("picked");
  else { picked.add(place); card.classList.add("picked"); }
  card.querySelector("button").setAttribute("aria-pressed", picked.has(place));
  say(`${picked.size} of ${nPicks} picked`);
  if (picked.size === nPicks) finish("answer", [...picked]);
}
function finish(outcome, choice) {
  if (!shown || pausedAt || performance.now() - shownAt < GUARD) return;
  const seconds = (performance.now() - shownAt) / 1000;
  const event = { id: makeId(), question: shown.id, outcome, choice, seconds };
  keep(event);
  past.push({ question: shown, answer: event.id, counts: outcome !== "skip" });
  if (past.length > 50) past.shift();
  if (outcome !== "skip") nAnswers += 1;
  waiting.shift();
  say("");
  render();
  send();
}
function undo() {
  const last = past.pop();
  if (!last || pausedAt) return;
  keep({ undo: last.answer });
  if (last.counts) nAnswers -= 1;
  isDone = false;
  waiting.unshift(last.question);
  say("Taken back.");
  render();
  send();
}
function pause() {
  if (pausedAt) { shownAt += performance.now() - pausedAt; pausedAt = 0; }
  else pausedAt = performance.now();
  get("pause").textContent = pausedAt ? "Go on" : "Pause";
  render();
}

async function post(events) {
  const response = await fetch(`${root}/api/answers`, {
    method: "POST", headers: { "content-type": "application/json", "x-page-token": meta("token") }, body: JSON.stringify({ events }),
  });
  const reply = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(reply.error || "The server does not answer."), { status: response.status });
  return reply;
}
let again = 0;
async function send() {
  if (isSending) return;
  isSending = true;
  clearTimeout(again);
  try {
    do {
      const kept = unsent().slice(0, 50), held = memory.slice(0, 50 - kept.length);
      const reply = await post([...kept.map(([, event]) => event), ...held]);
      kept.forEach(([key]) => storage.removeItem(key));
      memory.splice(0, held.length);
      delay = 500;
      take(reply);
    } while (unsent().length || memory.length);
  } catch (error) {
    const n = unsent().length + memory.length;
    const why = error instanceof TypeError ? "The server cannot be reached." : error.message;
    say(n ? `${why} ${n} ${n === 1 ? "answer waits" : "answers wait"} in this browser and will be sent.` : why, true);
    again = setTimeout(send, delay);
    delay = Math.min(delay * 2, 15000);
  } finally {
    isSending = false;
  }
}
function take(reply) {
  const pending = unsent().map(([, event]) => event).concat(memory);
  const answered = new Set(pending.map((event) => event.question));
  const open = reply.questions.filter((question) => !answered.has(question.id));
  if (!pending.length) {
    nAnswers = reply.n_answers;
    // What is open on the server is the truth: another tab may have answered in the meantime.
    const known = new Map(waiting.map((question) => [question.id, question]));
    const ids = new Set(open.map((question) => question.id));
    const kept = waiting.filter((question) => ids.has(question.id));
    waiting = kept.concat(open.filter((question) => !known.has(question.id)));
  } else {
    const ids = new Set(waiting.map((question) => question.id));
    waiting.push(...open.filter((question) => !ids.has(question.id)));
  }
  if (!past.length && !pending.length && reply.last) past = [reply.last]; // after a reload
  limit = reply.limit;
  isDone = limit !== null && nAnswers >= limit && !waiting.length;
  say(reply.refused.length ? `Not stored: ${reply.refused[0]}` : "", true);
  render();
}

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("audio, video")) return;
  const digit = /^[1-9]$/.test(event.key) ? Number(event.key) : 0;
  const nChoices = shown ? (form === "same" ? 2 : shown.items.length - firstChoice) : 0;
  if ((event.key === "ArrowDown" || event.key === "ArrowUp") && isLong()) return;
  if (event.key === "Backspace") undo();
  else if (event.key === "ArrowDown" || event.key === "0") finish("unsure", []);
  else if (event.key === "ArrowUp" || event.key === "s") finish("skip", []);
  else if (form === "triplet" && event.key === "ArrowLeft") choose(1);
  else if (form === "triplet" && event.key === "ArrowRight") choose(2);
  else if (form === "same" && (event.key === "ArrowLeft" || digit === 1)) choose(1);
  else if (form === "same" && (event.key === "ArrowRight" || digit === 2)) choose(0);
  else if (form !== "same" && digit && digit <= nChoices) choose(digit - 1 + firstChoice);
  else return;
  event.preventDefault();
});
get("undo").addEventListener("click", undo);
get("unsure").addEventListener("click", (event) => event.detail < 2 && finish("unsure", []));
get("skip").addEventListener("click", (event) => event.detail < 2 && finish("skip", []));
get("pause").addEventListener("click", pause);
window.addEventListener("online", send);
window.addEventListener("resize", hint);
new ResizeObserver(hint).observe(document.body); // pictures make it taller when they come
render();
send();
