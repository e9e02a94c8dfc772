// Settle: rows on which people differ; and the list of what was decided.

import * as api from "./api.js";
import { state } from "./api.js";
import { reopen } from "./check.js";
import { byId, CANNOT_TELL, el, named, NO_CLASS, own, picker, said, snippet } from "./parts.js";
import { refresh } from "./progress.js";

export async function load() {
  const { rows } = await api.get("/api/disputed");
  byId("disputed").replaceChildren(...(rows.length ? rows.map(entry)
    : [el("li", { class: "none" }, el("p", { class: "quiet" }, "Nothing is open among the rows that you have answered."))]));
}

function entry(row) {
  const people = row.answers.flatMap(([who, answer]) => [el("dt", {}, own(who)), el("dd", {}, said(answer))]);
  const codes = row.answers.map(([, answer]) => answer).filter((answer) => typeof answer === "number");
  const likely = [...new Set([row.given, row.suggested ?? row.given, ...codes])];
  return el("li", {},
    el("div", { class: "piece" }, snippet(row)),
    el("div", {},
      el("h3", {}, own(row.id)),
      el("dl", {}, el("dt", {}, "Given"), el("dd", {}, named(row.given)), ...people,
        ...(row.settled === null ? [] : [el("dt", {}, "Settled"), el("dd", {}, el("b", {}, said(row.settled)))])),
      el("div", { class: "settling" },
        ...likely.map((code) => button(row, code)), picker("Another class", (code) => settle(row, code)),
        button(row, NO_CLASS), button(row, CANNOT_TELL))));
}

const button = (row, answer) => el("button", { type: "button", onclick: () => settle(row, answer) },
  answer === NO_CLASS ? "None of the classes" : answer === CANNOT_TELL ? "Cannot tell" : named(answer));

async function settle(row, answer) {
  try {
    await api.answer("settle", [[row.position, answer]]);
    api.tell("1 row settled.", takeBack);
    await load();
    refresh();
  } catch { /* said already */ }
}

async function takeBack() {
  try {
    await api.undo("settle");
    api.tell("The row is open again.");
    await load();
    refresh();
  } catch { /* said already */ }
}

export async function listDecisions() {
  const { rows } = await api.get("/api/decisions");
  byId("decided-by").replaceChildren(`${rows.length} rows answered by `, own(state.reviewer), ". The outcome is what all answers to a row come to. Open a row to look at it again, or to change your answer.");
  byId("csv").href = `/answers.csv?${new URLSearchParams({ reviewer: state.reviewer })}`;
  byId("decided").replaceChildren(...rows.map((row) => el("tr", {},
    el("th", { scope: "row" }, el("a", { href: row.queue === "settle" ? "#settle" : "#check", onclick: (event) => again(event, row) }, own(row.id))),
    el("td", {}, named(row.given)), el("td", {}, row.suggested === null ? "" : named(row.suggested)),
    el("td", {}, said(row.answer)), el("td", {}, said(row.outcome)), el("td", {}, row.queue),
    el("td", {}, new Date(row.time).toLocaleString()))));
}

function again(event, row) {
  if (row.queue === "settle") return;
  event.preventDefault();
  reopen(row).catch(() => {});
}

export function begin() {
  byId("print").addEventListener("click", () => window.print());
}
