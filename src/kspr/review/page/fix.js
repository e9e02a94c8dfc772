// Fix: suspects in a grid, many answered together. These answers never count for the error rate.

import * as api from "./api.js";
import { state } from "./api.js";
import { byId, count, el, snippet } from "./parts.js";
import { refresh } from "./progress.js";

let rows = [];
let total = 0;
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
  const number = ++asked;
  const found = await api.get("/api/suspects", { ...filters(), start });
  // An answer to an earlier question may come late.
  if (number !== asked) return;
  if (start === 0) { rows = []; byId("grid").replaceChildren(); lastToggled = null; }
  total = found.total;
  rows.push(...found.rows);
  byId("grid").classList.toggle("texts", rows.some((row) => row.content.kind !== "image"));
  byId("grid").append(...found.rows.map((row, k) => card(row, start + k)));
  byId("fix-count").textContent = `${count(rows.length)} of ${count(total)} rows are shown.`;
  byId("more").hidden = rows.length >= total;
  selection();
}

function card(row, index) {
  const box = el("input", { type: "checkbox", "aria-label": `Select row ${row.id}`, onclick: (event) => range(index, event.shiftKey) });
  const inside = snippet(row);
  const content = row.content.kind === "image" ? el("span", { class: "picture" }, inside) : el("span", { class: "words" }, el("span", {}, inside.textContent));
  const facts = el("div", { class: "facts" },
    el("p", { class: "labels" }, el("span", { class: "given", title: state.classes[row.given] }, state.classes[row.given]),
      row.suggested === null ? el("span", { class: "same" }, "no other label fits better")
        : el("span", { class: "suggested", title: state.classes[row.suggested] }, `→ ${state.classes[row.suggested]}`)),
    row.answer !== null ? el("p", {}, `You said: ${api.said(row.answer)}`) : null,
    row.doubt === null ? null : doubt(row.doubt),
    el("p", { class: "row-id", title: row.id }, row.id));
  return el("li", {}, el("label", { class: "card" }, box, content, facts));
}

function doubt(value) {
  const meter = el("div", { class: "meter" });
  meter.style.setProperty("--part", `${100 * value}%`);
  return el("div", { class: "doubt" }, el("p", {}, `doubt ${Math.round(100 * value)} %`), meter);
}

const boxes = () => [...byId("grid").querySelectorAll("input")];
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

async function give(answerOf) {
  const answers = selected().map((row) => [row.position, answerOf(row)]).filter(([, answer]) => answer !== null);
  if (!answers.length) return;
  await api.answer("fix", answers);
  byId("said").textContent = `${count(answers.length)} rows answered.`;
  await load();
  refresh();
}

async function takeBack() {
  const { rows: undone } = await api.undo("fix");
  byId("said").textContent = undone.length ? `${count(undone.length)} answers undone.` : "There is nothing to undo.";
  await load();
  refresh();
}

export function begin() {
  for (const id of ["by-given", "by-suggested"]) {
    byId(id).append(...state.classes.map((name, code) => el("option", { value: code }, name)));
  }
  byId("by-doubt-box").hidden = !state.hasDoubt;
  const quietly = (action) => () => { action().catch(() => {}); };
  let timer = null;
  byId("filters").addEventListener("input", () => {
    byId("by-doubt-now").textContent = `${Math.round(100 * byId("by-doubt").value)} %`;
    clearTimeout(timer);
    timer = setTimeout(quietly(() => load()), 200);
  });
  byId("more").addEventListener("click", quietly(() => load(rows.length)));
  byId("accept").addEventListener("click", quietly(() => give((row) => row.suggested)));
  byId("given-right").addEventListener("click", quietly(() => give((row) => row.given)));
  byId("no-class").addEventListener("click", quietly(() => give(() => api.NO_CLASS)));
  byId("fix-undo").addEventListener("click", quietly(takeBack));
  byId("select-all").addEventListener("click", () => {
    const all = boxes();
    const on = all.some((box) => !box.checked);
    for (const box of all) box.checked = on;
    selection();
  });
}
