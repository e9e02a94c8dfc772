// The progress of checking: always in sight, recomputed after every answer, never waited for.

import { get, state } from "./api.js";
import { byId, count, el, own, percent, say } from "./parts.js";

let asking = false;
let again = false;

const LATER = 80; // ms: the next row is drawn first

// One request at a time; answers that come meanwhile ask once more.
export async function refresh() {
  if (asking) { again = true; return; }
  asking = true;
  await new Promise((resolve) => { setTimeout(resolve, LATER); });
  try {
    do {
      again = false;
      show(await get("/api/progress"));
    } while (again);
  } catch { /* said already */ } finally { asking = false; }
}

function show(now) {
  state.progress = now;
  const { done, total } = now.plan ?? now;
  byId("done").textContent = count(done);
  byId("total").textContent = count(total);
  byId("done-how").textContent = now.plan ? "of the plan labelled" : "checked";
  byId("progress").max = Math.max(total, 1);
  byId("progress").value = done;
  say("plan", now.plan?.says ?? "");
  say("verdict", now.final ? now.verdict : "");
  say("wrong-so-far", now.final ? "" : now.verdict);
  const others = now.people.filter(([name]) => name !== state.reviewer);
  byId("people").hidden = !others.length;
  byId("people").replaceChildren(...now.people.map(([name, n]) => el("li", {}, own(name), ` ${count(n)}`)));
  say("expected", now.expected);
  say("promise", now.promise);
  const one = now.unsettled === 1;
  say("unsettled", now.unsettled ? `${count(now.unsettled)} checked ${one ? "row" : "rows"} that people answered differently or cannot tell ${one ? "counts" : "count"} as wrong until ${one ? "it is" : "they are"} settled.` : "");
  say("picked", now.picked ? `${count(now.picked)} answers in Fix: they decide on their own rows, and do not count for the error rate.` : "");
  byId("to-settle").textContent = now.to_settle;
  byId("to-settle").hidden = !now.to_settle;
  draw(now);
  dial(now);
  agree(now);
  document.dispatchEvent(new Event("progress"));
}

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, BASE] = [320, 110, 96];

function shape(tag, props) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props)) made.setAttribute(name, value);
  return made;
}

// Rows from least to most doubtful, their doubt as height; what is left of the line is kept.
function draw({ picture, kept, rows, n_wrong: wrong, final }) {
  const { curve, cut, checks } = picture;
  const x = (part) => part * WIDTH;
  const y = (doubt) => BASE - 6 - doubt * (BASE - 16);
  const at = (part) => curve[Math.min(curve.length - 1, Math.round(part * (curve.length - 1)))] ?? 0;
  const area = (from, to) => {
    const steps = 60;
    const points = Array.from({ length: steps + 1 }, (_, k) => from + ((to - from) * k) / steps);
    return `M${x(from)} ${BASE} ${points.map((p) => `L${x(p).toFixed(1)} ${y(at(p)).toFixed(1)}`).join(" ")} L${x(to)} ${BASE}Z`;
  };
  const marks = checks.map(([part, right]) =>
    shape("circle", { cx: x(part).toFixed(1), cy: right ? BASE + 7 : y(at(part)).toFixed(1), r: right ? 1.6 : 3.6, class: right ? "right" : "wrong" }));
  byId("picture").classList.toggle("before", !final);
  byId("picture").replaceChildren(
    shape("path", { d: area(0, cut), class: "kept" }),
    shape("path", { d: area(cut, 1), class: "rest" }),
    shape("line", { x1: 0, x2: WIDTH, y1: BASE, y2: BASE, class: "base" }),
    shape("line", { x1: x(cut), x2: x(cut), y1: 4, y2: BASE, class: "cut" }),
    ...marks,
  );
  byId("picture-words").textContent = (final ? `All rows by doubt: ${count(kept)} of ${count(rows)} are kept, left of the line.`
    : `All rows by doubt. Without checks, ${count(kept)} of ${count(rows)} are kept: left of the grey line.`) +
    (checks.length ? ` Dots are checked rows${wrong ? `; the ${count(wrong)} wrong ones are on the curve` : ""}.` : "");
}

function dial({ levels, q }) {
  byId("dial").hidden = levels.length < 2;
  const slider = byId("q");
  slider.max = Math.max(levels.length - 1, 0);
  if (!slider.dataset.moved) slider.value = levels.findIndex(([level]) => level === q);
  turn();
}

function turn() {
  const { levels, q, most, guarantee } = state.progress;
  const [level, kept] = levels[byId("q").value] ?? [];
  if (level === undefined) return;
  byId("q").setAttribute("aria-valuetext", percent(level));
  say("q-says", `At ${percent(level)}, ${count(kept)} rows would be kept. ` +
    (guarantee === "anywhere" ? "The promise holds for every rate: choose the one you like."
      : level === q ? "The rows were drawn for this rate." : `The promise is for ${percent(q)}, for which the rows were drawn.`) +
    (kept < most ? "" : " No more can be kept: the checks were drawn from these rows."));
}

function agree({ agreement }) {
  byId("agreement").hidden = !agreement.length;
  byId("agreement").querySelector("ul").replaceChildren(...agreement.map((pair) =>
    el("li", {}, own(pair.one), " and ", own(pair.other), `: ${percent(pair.share)} of ${count(pair.n)} rows` +
      (pair.kappa === null ? "" : `, kappa ${pair.kappa.toFixed(2)}`))));
}

export function begin() {
  byId("q").addEventListener("input", () => { byId("q").dataset.moved = "1"; turn(); });
  // On a phone the details are folded, so that the row has the screen.
  if (matchMedia("(max-width: 900px)").matches) byId("so-far-more").open = byId("guide").open = false;
}
