// Fix: suspects in a grid, many answered together. These answers never count for the error rate.

import * as api from "./api.js";
import { state } from "./api.js";
import { byId, codeOf, count, el, look, named, NO_CLASS, own, picker, said, snippet } from "./parts.js";
import { refresh } from "./progress.js";

let rows = [];
let lastToggled = null;
let asked = 0;

function filters() {
  const show = byId("by-show").value;
  return {
    given: byId("by-given").value,
    suggested: byId("by-suggested").value,
    doubt: byId("by-doubt").value,
    text: byId("by-text").value,
    every: show === "every" ? "1" : "",
    answered: show === "answered" ? "1" : "",
  };
}

export async function load(start = 0) {
  const number = (asked += 1);
  const found = await api.get("/api/suspects", { ...filters(), start });
  // An answer to an earlier question may come late.
  if (number !== asked) return;
  if (start === 0) { rows = []; byId("grid").replaceChildren(); lastToggled = null; }
  rows.push(...found.rows);
  byId("grid").classList.toggle("texts", rows.some((row) => row.content.kind !== "image"));
  byId("grid").append(...found.rows.map((row, k) => card(row, start + k)));
  byId("fix-count").textContent = `${count(rows.length)} of ${count(found.total)} rows are shown.`;
  byId("more").hidden = rows.length >= found.total;
  for (const name of ["given", "suggested"]) countOptions(byId(`by-${name}`), found.counts[name]);
  selection();
}

function countOptions(select, counts) {
  for (const option of select.options) {
    if (!option.value) continue;
    option.textContent = `${state.classes[option.value]} (${count(counts[option.value])})`;
    option.hidden = !counts[option.value] && !option.selected;
  }
}

function card(row, index) {
  const box = el("input", { type: "checkbox", "aria-label": `Select row ${row.id}`, onclick: (event) => range(index, event.shiftKey) });
  const inside = snippet(row);
  const content = row.content.kind === "image" ? el("span", { class: "picture" }, inside)
    : row.content.kind === "sound" ? el("span", { class: "words" }, inside)
    : el("span", { class: "words" }, el("span", { dir: "auto" }, inside.textContent));
  const facts = el("div", { class: "facts" },
    el("p", { class: "labels" }, el("span", { class: "given" }, named(row.given)),
      row.suggested === null ? el("span", { class: "same" }, "no other label fits better") : el("span", { class: "suggested" }, "→ ", named(row.suggested))),
    row.answer !== null ? el("p", {}, "You said: ", said(row.answer)) : null,
    row.doubt === null ? null : doubt(row.doubt),
    el("p", { class: "row-id", title: row.id }, own(row.id)));
  return el("li", {}, el("label", { class: "card" }, box, content, facts),
    el("button", { type: "button", class: "enlarge", "aria-label": `Enlarge row ${row.id}`, onclick: () => look(row) }, "⤢"));
}

function doubt(value) {
  const meter = el("div", { class: "meter" });
  meter.style.setProperty("--part", `${100 * value}%`);
  return el("div", { class: "doubt" }, el("p", {}, `doubt ${Math.round(100 * value)}\u00a0%`), meter);
}

const boxes = () => [...byId("grid").querySelectorAll("input")];
const focused = () => boxes().indexOf(document.activeElement);
const selected = () => boxes().flatMap((box, k) => (box.checked ? [rows[k]] : []));

// With the shift key, everything from the last one on.
function range(index, whole) {
  const all = boxes();
  if (whole && lastToggled !== null) {
    const [from, to] = [Math.min(index, lastToggled), Math.max(index, lastToggled)];
    for (let k = from; k <= to; k += 1) all[k].checked = all[index].checked;
  }
  lastToggled = index;
  selection();
}

function selection() {
  const chosen = selected();
  byId("n-selected").textContent = `${count(chosen.length)} selected`;
  byId("accept").disabled = !chosen.some((row) => row.suggested !== null);
  byId("given-right").disabled = byId("no-class").disabled = !chosen.length;
  byId("select-all").textContent = rows.length && chosen.length === rows.length ? "Select none" : "Select all shown";
}

// Answers the selected rows or, where none is, the one that has the focus.
async function give(answerOf) {
  const place = focused();
  const chosen = selected();
  const meant = chosen.length ? chosen : rows.slice(place, place + 1);
  const answers = (place < 0 && !chosen.length ? [] : meant).map((row) => [row.position, answerOf(row)]).filter(([, answer]) => answer !== null);
  if (!answers.length) { api.tell("Select rows first."); return; }
  await api.answer("fix", answers);
  api.tell(`${count(answers.length)} ${answers.length === 1 ? "row" : "rows"} answered.`, quietly(takeBack));
  await load();
  boxes()[Math.min(place, rows.length - 1)]?.focus();
  refresh();
}

async function takeBack() {
  const { rows: undone } = await api.undo("fix");
  api.tell(undone.length ? `${count(undone.length)} ${undone.length === 1 ? "answer" : "answers"} undone.` : "There is nothing to undo.", undone.length ? quietly(takeBack) : null);
  await load();
  refresh();
}

const quietly = (action) => (...given) => { action(...given).catch(() => {}); };
const answerWith = (answerOf) => quietly(() => give(answerOf));

export function key(event) {
  const code = codeOf(event.key);
  const cards = [...byId("grid").children];
  const columns = cards.filter((item) => item.offsetTop === cards[0].offsetTop).length;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
  const act = { g: answerWith((row) => row.given), "-": answerWith(() => NO_CLASS), u: quietly(takeBack),
    z: () => rows[focused()] && look(rows[focused()]), "/": () => byId("another").querySelector("input").focus() }[event.key];
  if (step) boxes()[Math.max(0, focused() < 0 ? 0 : focused() + step)]?.focus();
  else if (act) act();
  else if (code >= 0) answerWith(() => code)();
  else if (event.key === "Enter" && focused() >= 0) answerWith((row) => row.suggested)();
  else return;
  event.preventDefault();
}

export function begin() {
  for (const id of ["by-given", "by-suggested"]) {
    byId(id).append(...state.classes.map((name, code) => el("option", { value: code, dir: "auto" }, name)));
  }
  byId("by-doubt-box").hidden = !state.hasDoubt;
  let timer = null;
  byId("filters").addEventListener("input", () => {
    byId("by-doubt-now").textContent = `${Math.round(100 * byId("by-doubt").value)}\u00a0%`;
    clearTimeout(timer);
    timer = setTimeout(quietly(() => load()), 200);
  });
  byId("more").addEventListener("click", quietly(() => load(rows.length)));
  byId("accept").addEventListener("click", answerWith((row) => row.suggested));
  byId("given-right").addEventListener("click", answerWith((row) => row.given));
  byId("no-class").addEventListener("click", answerWith(() => NO_CLASS));
  byId("another").append(picker("Another class", (code) => answerWith(() => code)()));
  byId("select-all").addEventListener("click", () => {
    const all = boxes();
    const on = all.some((box) => !box.checked);
    for (const box of all) box.checked = on;
    selection();
  });
}
