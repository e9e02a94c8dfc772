// Check: the rows of the draw, one at a time, in their order. The next one is fetched ahead.

import * as api from "./api.js";
import { state } from "./api.js";
import { byId, count, el, prefetch, shown, snippet } from "./parts.js";
import { refresh } from "./progress.js";

const rows = new Map();
let listed = []; // as the server last sent them: the first rows that wait
let counted = 0; // how many rows waited then
let waiting = []; // those of the list that are not answered since
let total = 0;
let busy = false;
const done = new Set(); // answered here; a reply on its way may still list them
let revealed = null; // in blind mode: the row with its labels, after a first answer
let letters = "";
let letterTimer = null;

const left = () => counted - (listed.length - waiting.length);
const current = () => revealed ?? rows.get(waiting[0]) ?? null;
const PAUSE = 450; // ms in which a second letter makes `s` or `u` the beginning of a name

export async function load() {
  rows.clear();
  done.clear();
  revealed = null;
  await fill();
  show();
}

async function fill() {
  const found = await api.get("/api/rows", { have: [...rows.keys()].join(",") });
  listed = found.waiting;
  waiting = listed.filter((position) => !done.has(position));
  total = found.total;
  counted = found.left;
  for (const row of found.rows) {
    if (done.has(row.position)) continue;
    rows.set(row.position, row);
    fetchAhead(row);
  }
}

function fetchAhead(row) {
  if (row.content.kind !== "image") return;
  prefetch(row.position);
  for (const near of Object.values(row.near ?? {}).flat()) prefetch(near.position, { small: true });
}

function show() {
  clearLetters();
  const row = current();
  byId("check-title").textContent = row ? `Check ${count(total - left() + 1)} of ${count(total)}` : "Check";
  byId("stage").replaceChildren(row ? shown(row, { look: zoom, others: beside(row) }) : finished());
  byId("answers").replaceChildren(...(row ? choices(row) : []));
  byId("near").replaceChildren(...(row ? neighbours(row) : []));
  byId("near").classList.toggle("words-near", row?.content.kind === "text");
  if (row && !document.querySelector("dialog[open]") && !byId("check").hidden) byId("check-title").focus({ preventScroll: true });
  speak(row);
}

function speak(row) {
  const words = !row ? "All rows are checked."
    : row.blind ? `${byId("check-title").textContent}. Choose a class.`
    : `${byId("check-title").textContent}. Given label: ${state.classes[row.given]}. ` +
      (row.suggested === null ? "No other label fits better." : `Suggested label: ${state.classes[row.suggested]}.`);
  byId("said").textContent = words;
}

function finished() {
  return el("div", { class: "finished" },
    el("h3", {}, total ? `All ${count(total)} rows of the draw are checked.` : "No rows were drawn."),
    el("p", {}, "What the answers come to is beside this. Go on in Settle or Fix, or end the review with Ctrl-C: ",
      el("code", {}, "kspr report"), " and ", el("code", {}, "kspr export"), " use the answers."));
}

// ---- answers

// Where all classes are digits, a digit is the class of that name, and only a dash is none of them.
const byDigit = () => state.classes.every((name) => /^[0-9]$/.test(name));
const keyOf = (code, place) => (byDigit() ? state.classes[code] : String(place + 1));
const keyOfNone = () => (byDigit() ? "-" : "0");

function numbered(row) {
  if (row.blind) return state.classes.map((_, code) => code).slice(0, 9);
  return row.others.slice(0, 9);
}

function choice(words, key, answer, { kind = "", note = "" } = {}) {
  const label = note ? el("span", {}, el("small", {}, note), el("b", {}, words)) : el("span", { title: words }, words);
  return el("button", { type: "button", class: kind, onclick: () => give(answer) }, label, key ? el("kbd", { "aria-hidden": "true" }, key) : null);
}

function choices(row) {
  const parts = [];
  if (row.answer !== undefined) {
    parts.push(el("p", { class: "revealed" }, `You said: ${api.said(row.answer)}. The given label is ${state.classes[row.given]}. `,
      el("button", { type: "button", class: "main", onclick: next }, "Keep, and go on", el("kbd", { "aria-hidden": "true" }, "Space"))));
  }
  if (!row.blind) {
    parts.push(el("div", { class: "two" },
      choice(state.classes[row.given], row.answer === undefined ? "Space" : "", row.given, { note: "Given label is right" }),
      row.suggested === null
        ? el("p", { class: "none" }, "No other label fits better.")
        : choice(state.classes[row.suggested], row.answer === undefined ? "Enter" : "", row.suggested, { kind: "suggested", note: suggestion(row) })));
  }
  parts.push(el("div", { class: "others", role: "group", "aria-label": "Other answers" },
    ...numbered(row).map((code, k) => choice(state.classes[code], keyOf(code, k), code)),
    choice("None of the classes", keyOfNone(), api.NO_CLASS, { kind: "apart" }),
    choice("Cannot tell", "s", api.CANNOT_TELL, { kind: "apart" })));
  parts.push(typing());
  return parts;
}

const suggestion = (row) => row.doubt === null ? "Suggested label" : `Suggested label; doubt of the given one ${Math.round(100 * row.doubt)} %`;

async function give(answer) {
  const row = current();
  if (!row || busy) return;
  busy = true;
  try {
    // Saved on disk before the next row shows.
    await api.answer("check", [[row.position, answer]]);
    if (row.blind) {
      revealed = await api.get(`/api/row/${row.position}`);
      fetchAhead(revealed);
      show();
    } else {
      advance(row.position);
    }
    refresh();
  } catch { /* said already */ } finally { busy = false; }
}

function next() {
  if (revealed) advance(revealed.position);
}

function advance(position) {
  revealed = null;
  done.add(position);
  waiting = waiting.filter((other) => other !== position);
  rows.delete(position);
  const filled = fill().catch(() => {});
  // Whoever is faster than the rows that come ahead waits for the next one.
  if (left() && !current()) filled.then(show);
  else show();
}

export async function takeBack() {
  if (busy) return;
  busy = true;
  try {
    const { rows: undone } = await api.undo("check");
    if (!undone.length) byId("said").textContent = "There is nothing to undo.";
    await load();
    refresh();
  } catch { /* said already */ } finally { busy = false; }
}

// ---- rows to compare with

function neighbours(row) {
  if (row.blind) return [];
  if (row.near === null) return [el("p", { class: "note" }, "No rows to compare with: the features of this run are not at hand.")];
  if (row.content.kind === "table") return [];
  return Object.entries(row.near).filter(([, found]) => found.length).map(([who, found]) => {
    const code = who === "suggested" ? row.suggested ?? row.given : row.given;
    return el("div", {}, el("h3", {}, `Most similar rows labelled ${state.classes[code]}`),
      el("ul", {}, ...found.map((near) => el("li", {}, snippet(near)))));
  });
}

function beside(row) {
  if (!row.near || row.content.kind !== "table") return [];
  return Object.entries(row.near).filter(([, found]) => found.length && found[0].content.kind === "table").map(([who, found]) => ({
    head: `Similar, labelled ${state.classes[who === "suggested" ? row.suggested ?? row.given : row.given]}`,
    cells: found[0].content.cells,
  }));
}

// ---- typing a class

function matches(prefix) {
  const wanted = prefix.toLowerCase();
  return state.classes.map((name, code) => [name, code]).filter(([name]) => name.toLowerCase().startsWith(wanted));
}

function typing() {
  const list = el("ul", {});
  const field = el("input", { type: "text", id: "type-class", autocomplete: "off", "aria-describedby": "type-hint",
    oninput: () => { list.replaceChildren(...(field.value ? matches(field.value).slice(0, 8).map(([name, code]) => el("li", {}, choice(name, "", code))) : [])); },
    onkeydown: (event) => {
      if (event.key !== "Enter" || !field.value) return;
      event.preventDefault();
      const [first] = matches(field.value);
      if (first) give(first[1]);
    } });
  return el("div", { class: "typed" }, el("label", { for: "type-class", id: "type-hint" }, "Another class: type its first letters"), field, list);
}

function clearLetters() {
  letters = "";
  clearTimeout(letterTimer);
}

// Two letters name a class; more are needed where several begin so, in the field that then opens.
function type(letter) {
  clearTimeout(letterTimer);
  letters += letter;
  const found = matches(letters);
  if (letters.length === 1) {
    const act = { s: () => give(api.CANNOT_TELL), u: takeBack, z: zoom }[letters.toLowerCase()];
    const alone = () => { clearLetters(); act?.(); };
    // At once, unless the letter may be the beginning of a name.
    if (!found.length) alone();
    else letterTimer = setTimeout(alone, PAUSE);
    return;
  }
  const typed = letters;
  clearLetters();
  if (found.length === 1) { give(found[0][1]); return; }
  if (!found.length) { byId("said").textContent = `No class begins with ${typed}.`; return; }
  const field = byId("type-class");
  field.value = typed;
  field.focus();
  field.dispatchEvent(new Event("input"));
}

// ---- keys

export function key(event) {
  const row = current();
  const onControl = event.target.closest?.("button, a, summary, [tabindex='0']");
  if (event.key === " " || event.key === "Enter") {
    // A control that has the focus is what the key is meant for.
    if (onControl || !row) return;
    event.preventDefault();
    if (row.answer !== undefined) next();
    else if (row.blind) byId("said").textContent = "Choose a class first: the labels are shown after that.";
    else if (event.key === " ") give(row.given);
    else if (row.suggested !== null) give(row.suggested);
    else byId("said").textContent = "There is no other suggestion. Press space if the given label is right.";
    return;
  }
  if (/^[0-9]$/.test(event.key)) {
    if (!row) return;
    event.preventDefault();
    const code = byDigit() ? state.classes.indexOf(event.key)
      : event.key === "0" ? api.NO_CLASS : numbered(row)[Number(event.key) - 1] ?? -1;
    if (code !== -1) give(code);
  } else if (event.key === "-") {
    give(api.NO_CLASS);
  } else if (event.key === "Escape") {
    clearLetters();
  } else if (/^\p{L}$/u.test(event.key)) {
    event.preventDefault();
    if (row) type(event.key);
    else if (event.key === "u") takeBack();
  }
}

// ---- a closer look

function zoom() {
  const row = current();
  if (row?.content.kind !== "image") return;
  byId("zoom-box").classList.remove("close-up");
  byId("zoom-box").replaceChildren(Object.assign(new Image(), { src: `/image/${row.position}`, alt: row.id ?? "The row to check" }));
  const image = byId("zoom-box").firstChild;
  image.addEventListener("load", () => image.classList.toggle("tiny", Math.max(image.naturalWidth, image.naturalHeight) < 48));
  byId("zoom").showModal();
}

export function begin() {
  byId("undo").addEventListener("click", takeBack);
  byId("zoom-box").addEventListener("click", () => byId("zoom-box").classList.toggle("close-up"));
}
