// Talking to the server, and what all parts of the page share.

import { byId } from "./parts.js";

export const state = { reviewer: null, classes: [], blind: false, hasDoubt: false };

export const NO_CLASS = "-";
export const CANNOT_TELL = "?";

export function said(answer) {
  if (answer === NO_CLASS) return "none of the classes";
  if (answer === CANNOT_TELL) return "cannot tell";
  return typeof answer === "number" ? state.classes[answer] : answer;
}

function complain(text) {
  const box = byId("trouble");
  box.textContent = text;
  box.hidden = !text;
}

async function talk(path, options) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    complain("The server cannot be reached. What you have answered is saved. Start `kspr review` again, and open the address that it prints.");
    throw new Error("unreachable");
  }
  if (!answer.ok) {
    const text = await answer.text();
    let words = text;
    try { words = JSON.parse(text).error; } catch { /* plain text */ }
    complain(words);
    throw new Error(words);
  }
  complain("");
  return answer.json();
}

export function get(path, query = {}) {
  const asked = new URLSearchParams({ reviewer: state.reviewer ?? "", ...query });
  return talk(`${path}?${asked}`);
}

export function post(path, body) {
  return talk(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ reviewer: state.reviewer, ...body }),
  });
}

export const answer = (queue, answers) => post("/api/answer", { queue, answers });
export const undo = (queue) => post("/api/undo", { queue });
