// Check: the rows of the draw, one at a time, in their order. The next one is fetched ahead.

import * as api from "./api.js";
import { state } from "./api.js";
import { byId, CANNOT_TELL, codeOf, count, el, keyOf, look, named, NO_CLASS, own, picker, prefetch, said, shown, snippet } from "./parts.js";
import { refresh } from "./progress.js";

let rows = []; // those that wait, as far as they were sent
let left = null;
let done = 0;
let current = null; // the row that is shown
let opened = null; // an answered row that is to be shown next
let asked = 0;
let busy = false;

export async function load() {
  await fill();
  show(opened ?? rows[0] ?? null);
  opened = null;
}

async function fill() {
  const number = (asked += 1);
  const found = await api.get("/api/rows");
  // An answer to an earlier question may come late.
  if (number !== asked) return;
  ({ rows, left, done } = found);
  rows.forEach(fetchAhead);
}

function fetchAhead(row) {
  if (row.content.kind !== "image") return;
  prefetch(row.position);
  for (const near of Object.values(row.near ?? {}).flat()) prefetch(near.position, { small: true });
}

// An answered row, to look at it again; its answer may be changed.
export async function reopen({ position, queue, answer }) {
  opened = { ...await api.get(`/api/row/${position}`), queue, answer, reopened: true };
  location.hash = "#check";
}

function show(row) {
  current = row;
  byId("check-title").replaceChildren(...(!row ? ["Check"] : row.reopened ? ["Row ", own(row.id)] : [`Check ${count(done + 1)}`]));
  const lead = !row || row.reopened ? "" : row.queue === "plan" ? "plan-lead" : "check-lead";
  for (const id of ["check-lead", "plan-lead"]) byId(id).hidden = id !== lead;
  byId("stage").replaceChildren(row ? shown(row, beside(row)) : finished());
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

// ---- the end

function finished() {
  const now = state.progress;
  if (!now) return "";
  const open = now.to_settle;
  const link = (words, href, main) => el("a", { class: main ? "button main" : "button", href }, words);
  return el("div", { class: "finished" },
    el("p", { class: "result" }, now.final ? now.verdict : now.total ? "You have no rows left to check." : "No rows were drawn."),
    now.plan ? el("p", {}, now.plan.says) : null,
    el("p", {}, now.final ? now.expected : `${count(now.done)} of ${count(now.total)} rows are checked; the others are with other people.`),
    el("p", { class: "ways" },
      open ? link(`Settle ${count(open)} ${open === 1 ? "row" : "rows"}`, "#settle", true) : null,
      link("Fix suspects", "#fix", !open),
      Object.assign(link("Report", "/report"), { target: "_blank" })),
    el("p", { class: "note" }, "Ctrl-C ends the review. ", el("code", {}, "kspr export"), " writes the data with your answers."));
}

// ---- answers

function choice(words, key, answer, kind = "", note = null) {
  const label = el("span", {}, note && el("small", {}, note), note ? el("b", {}, words) : words);
  return el("button", { type: "button", class: kind, onclick: () => give(answer) }, label, key ? el("kbd", { "aria-hidden": "true" }, key) : null);
}

function choices(row) {
  const first = row.answer === undefined;
  const parts = [];
  if (!first) {
    parts.push(el("p", { class: "revealed" }, "You said: ", said(row.answer), ". The given label is ", named(row.given), ". ",
      el("button", { type: "button", class: "main", onclick: () => goOn(row) }, "Keep, and go on", el("kbd", { "aria-hidden": "true" }, "Space"))));
  }
  if (!row.blind) {
    parts.push(el("div", { class: "two" },
      choice(named(row.given), first ? "Space" : "", row.given, "", "Given label is right"),
      row.suggested === null
        ? el("p", { class: "none" }, "No other label fits better.")
        : choice(named(row.suggested), first ? "Enter" : "", row.suggested, "suggested", suggestion(row))));
  }
  // Buttons that stay where they are, as far as there is room for all classes.
  const listed = keyOf(0) ? state.classes.map((_, code) => code) : (row.others ?? []).slice(0, 9);
  parts.push(el("div", { class: "others", role: "group", "aria-label": "Other answers" },
    ...listed.map((code) => choice(named(code), keyOf(code), code)),
    choice("None of the classes", "-", NO_CLASS, "apart"),
    choice("Cannot tell", "s", CANNOT_TELL, "apart"),
    keyOf(0) ? null : el("div", { class: "typed" }, picker("Search all classes", give), el("kbd", { "aria-hidden": "true" }, "/"))));
  return parts;
}

const suggestion = (row) => row.doubt === null ? "Suggested label" : `Suggested label; doubt of the given one ${Math.round(100 * row.doubt)}\u00a0%`;

async function give(answer) {
  const row = current;
  if (!row || busy) return;
  busy = true;
  try {
    // Saved on disk before the next row shows.
    await api.answer(row.queue, [[row.position, answer]], row.answer !== undefined);
    if (row.blind) {
      const revealed = { ...await api.get(`/api/row/${row.position}`), queue: row.queue, answer };
      fetchAhead(revealed);
      show(revealed);
    } else {
      goOn(row);
    }
    refresh();
  } catch (error) {
    // Another window has answered it: what waits now is shown.
    if (error.refused) load().catch(() => {});
  } finally { busy = false; }
}

function goOn(row) {
  if (row.reopened) { location.hash = "#decisions"; return; }
  const rest = rows.filter((other) => other.position !== row.position || other.queue !== row.queue);
  // A reply that came meanwhile may have counted it already.
  left -= rows.length - rest.length;
  done += rows.length - rest.length;
  rows = rest;
  const filled = fill().catch(() => {});
  if (rows.length) { show(rows[0]); return; }
  // Whoever is faster than the rows that come ahead waits for the next one, and answers none twice.
  // The last answers decide what is asked again.
  current = null;
  filled.then(() => show(rows[0] ?? null));
}

async function takeBack() {
  if (busy) return;
  busy = true;
  try {
    const { rows: undone } = await api.undo("check");
    if (!undone.length) api.tell("There is nothing to undo.");
    await load();
    refresh();
  } catch { /* said already */ } finally { busy = false; }
}

// ---- rows to compare with

const compared = (row) => Object.entries(row.near ?? {}).filter(([, found]) => found.length).map(([who, found]) =>
  ({ found, code: who === "suggested" ? row.suggested ?? row.given : row.given }));

function neighbours(row) {
  if (row.blind || (row.near && row.content.kind === "table")) return [];
  if (row.near === null) return [el("p", { class: "note" }, "No rows to compare with: the features of this run are not at hand.")];
  return compared(row).map(({ found, code }) =>
    el("div", {}, el("h3", {}, "Most similar rows labelled ", named(code)), el("ul", {}, ...found.map((near) => el("li", {}, snippet(near))))));
}

function beside(row) {
  return compared(row).filter(({ found }) => found[0].content.kind === "table").map(({ found, code }) =>
    ({ head: el("span", {}, "Similar, labelled ", named(code)), cells: found[0].content.cells }));
}

// ---- keys

export function key(event) {
  const row = current;
  const act = { u: takeBack, s: () => give(CANNOT_TELL), "-": () => give(NO_CLASS), z: () => row && look(row),
    "/": () => document.querySelector("#answers .picker input")?.focus() }[event.key];
  if (act) {
    event.preventDefault();
    act();
  } else if (codeOf(event.key) >= 0) {
    give(codeOf(event.key));
  } else if (event.key === " " || event.key === "Enter") {
    // A control that has the focus is what the key is meant for.
    if (!row || event.target.closest?.("button, a, summary, [tabindex='0']")) return;
    event.preventDefault();
    if (row.answer !== undefined) goOn(row);
    else if (row.blind) api.tell("Choose a class first: the labels are shown after that.");
    else if (event.key === " ") give(row.given);
    else if (row.suggested !== null) give(row.suggested);
    else api.tell("There is no other suggestion. Press space if the given label is right.");
  }
}

export function begin() {
  byId("undo").addEventListener("click", takeBack);
  byId("zoom-box").addEventListener("click", () => byId("zoom-box").classList.toggle("close-up"));
  document.addEventListener("progress", () => { if (left === 0 && !current && !rows.length) byId("stage").replaceChildren(finished()); });
}
