// Talking to the server and to the person, and what all parts of the page share.

export const state = { reviewer: null, classes: [], blind: false, hasDoubt: false, progress: null };

function complain(text) {
  const box = document.getElementById("trouble");
  box.textContent = text;
  box.hidden = !text;
}

let fading = null;
const LONG_ENOUGH = 15_000; // ms

// A sentence for a moment, with a way back where there is one.
export function tell(text, undo = null) {
  const [box, button] = [document.getElementById("toast"), document.getElementById("toast-undo")];
  document.getElementById("toast-words").textContent = text;
  button.hidden = !undo;
  button.onclick = undo;
  box.hidden = false;
  clearTimeout(fading);
  fading = setTimeout(() => { box.hidden = true; }, LONG_ENOUGH);
}

async function talk(path, options) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    complain("The server cannot be reached. What you have answered is saved. Start `kspr review` again, and open the address that it prints.");
    throw new Error("unreachable");
  }
  complain("");
  if (!answer.ok) {
    const text = await answer.text();
    let words = text;
    try { words = JSON.parse(text).error; } catch { /* plain text */ }
    tell(words);
    throw Object.assign(new Error(words), { refused: true });
  }
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

// `again` replaces answers on purpose: without it, those of another window stand.
export const answer = (queue, answers, again = false) => post("/api/answer", { queue, answers, again });
export const undo = (queue) => post("/api/undo", { queue });
