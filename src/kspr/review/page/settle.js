// Settle: rows on which people differ; and the list of what was decided.

import * as api from "./api.js";
import { state } from "./api.js";
import { byId, el, snippet } from "./parts.js";
import { refresh } from "./progress.js";

export async function load() {
  const { rows } = await api.get("/api/disputed");
  byId("disputed").replaceChildren(...(rows.length ? rows.map(entry)
    : [el("li", { class: "none" }, el("p", { class: "quiet" }, "Nothing is open among the rows that you have answered."))]));
}

function entry(row) {
  const people = Object.entries(row.answers).flatMap(([who, answer]) => [el("dt", {}, who), el("dd", {}, api.said(answer))]);
  const all = el("select", { "aria-label": "Another class" }, el("option", { value: "" }, "another class …"),
    ...state.classes.map((name, code) => el("option", { value: code }, name)));
  all.addEventListener("change", () => { if (all.value) settle(row, Number(all.value)); });
  const likely = [...new Set([row.given, row.suggested ?? row.given, ...codes(row)])];
  return el("li", {},
    el("div", { class: "piece" }, snippet(row)),
    el("div", {},
      el("h3", {}, row.id),
      el("dl", {}, el("dt", {}, "Given"), el("dd", {}, state.classes[row.given]), ...people,
        ...(row.settled === null ? [] : [el("dt", {}, "Settled"), el("dd", {}, el("b", {}, api.said(row.settled)))])),
      el("div", { class: "settling" },
        ...likely.map((code) => button(row, state.classes[code], code)), all,
        button(row, "None of the classes", api.NO_CLASS), button(row, "Cannot tell", api.CANNOT_TELL),
        row.settled === null ? null : el("button", { type: "button", onclick: takeBack }, "Undo my last"))));
}

const codes = (row) => Object.values(row.answers).filter((answer) => typeof answer === "number");
const button = (row, words, answer) => el("button", { type: "button", onclick: () => settle(row, answer) }, words);

async function settle(row, answer) {
  try {
    await api.answer("settle", [[row.position, answer]]);
    await load();
    refresh();
  } catch { /* said already */ }
}

async function takeBack() {
  try {
    await api.undo("settle");
    await load();
    refresh();
  } catch { /* said already */ }
}

export async function listDecisions() {
  const { rows } = await api.get("/api/decisions");
  byId("decided-by").textContent = `${rows.length} rows answered by ${state.reviewer}. The outcome is what all answers to a row come to.`;
  byId("csv").href = `/answers.csv?${new URLSearchParams({ reviewer: state.reviewer })}`;
  byId("decided").replaceChildren(...rows.map((row) => el("tr", {},
    el("th", { scope: "row" }, row.id), el("td", {}, state.classes[row.given]),
    el("td", {}, row.suggested === null ? "" : state.classes[row.suggested]),
    el("td", {}, api.said(row.answer)), el("td", {}, api.said(row.outcome)), el("td", {}, row.queue),
    el("td", {}, new Date(row.time).toLocaleString()))));
}

export function begin() {
  byId("print").addEventListener("click", () => window.print());
}
