// Pieces of the page. All text goes through textContent: nothing in the data can become markup.

import { get, state } from "./api.js";

export const byId = (id) => document.getElementById(id);

export function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (value === true) made.setAttribute(name, "");
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const percent = (value) => `${Number((100 * value).toPrecision(3))}\u00a0%`;
export const count = (value) => value.toLocaleString("en");

// A number and its unit stay in one line.
export function say(id, text) {
  byId(id).textContent = text.replace(/(\d) %/g, "$1\u00a0%");
  byId(id).hidden = !text;
}

// ---- classes and answers

export const NO_CLASS = "-";
export const CANNOT_TELL = "?";

// Text of the data, in its own direction of writing whatever stands around it. A long name breaks
// after its joints first.
const joints = (text) => String(text).split(/(?<=[_/.-])/).flatMap((part, n) => n ? [el("wbr"), part] : [part]);
export const own = (text) => el("bdi", {}, ...joints(text));
export const named = (code) => own(state.classes[code]);
export const said = (answer) => answer === NO_CLASS ? "none of the classes" : answer === CANNOT_TELL ? "cannot tell"
  : own(typeof answer === "number" ? state.classes[answer] : answer);

// Up to ten classes have a digit each, the same for every row; a class that is a digit has itself.
function digits() {
  if (state.classes.length > 10) return [];
  if (state.classes.every((name) => /^[0-9]$/.test(name))) return state.classes;
  return state.classes.map((_, code) => String((code + 1) % 10));
}
export const keyOf = (code) => digits()[code] ?? "";
export const codeOf = (key) => digits().indexOf(key);

const LISTED = 8;
let pickers = 0;

// Names that hold what was typed; those that begin with it first, and the very name before all.
function search(typed) {
  const wanted = typed.trim().toLowerCase();
  const place = (name) => (name === wanted ? 0 : name.startsWith(wanted) ? 1 : name.includes(wanted) ? 2 : 3);
  const found = state.classes.map((name, code) => [place(name.toLowerCase()), code]).filter(([rank]) => rank < 3);
  return wanted ? found.sort(([one], [other]) => one - other).map(([, code]) => code) : [];
}

// A field to search for a class. Enter takes the marked one; nothing that is not marked is taken.
export function picker(words, take) {
  const id = `picker-${(pickers += 1)}`;
  let found = [];
  let marked = 0;
  const list = el("ul", { role: "listbox", id, "aria-label": words, hidden: true });
  const choose = (code) => { field.value = ""; list.hidden = true; field.blur(); take(code); };
  const mark = (place) => {
    marked = (place + list.children.length) % Math.max(list.children.length, 1);
    [...list.children].forEach((item, k) => item.setAttribute("aria-selected", k === marked));
    field.setAttribute("aria-activedescendant", list.children.length ? `${id}-${marked}` : "");
  };
  const field = el("input", { type: "text", role: "combobox", autocomplete: "off", "aria-label": words, placeholder: words,
    "aria-controls": id, "aria-expanded": "false", dir: "auto",
    oninput: () => {
      found = search(field.value);
      list.replaceChildren(...found.slice(0, LISTED).map((code, k) =>
        el("li", { role: "option", id: `${id}-${k}`, onmousedown: (event) => { event.preventDefault(); choose(code); } }, named(code))));
      list.hidden = !found.length;
      field.setAttribute("aria-expanded", String(!list.hidden));
      hint.textContent = !field.value ? "" : !found.length ? "No class has this in its name." : found.length > LISTED ? `and ${count(found.length - LISTED)} more` : "";
      mark(0);
    },
    onkeydown: (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) mark(marked + step);
      else if (event.key === "Enter" && found.length) choose(found[marked]);
      else return;
      event.preventDefault();
    } });
  const hint = el("span", { role: "status" });
  return el("div", { class: "picker" }, field, list, hint);
}

// ---- the content of rows

const LARGEST = 8; // times its size; more shows no more, and is harder to judge
const kept = new Map();
const MOST_KEPT = 60;

// Images are fetched and decoded before their row is shown.
export function picture(position, { small = false, alt = "" } = {}) {
  const source = `/image/${position}${small ? "?small=1" : ""}`;
  const found = kept.get(source);
  kept.delete(source);
  const image = found ?? new Image();
  if (!found) {
    image.decoding = "async";
    image.src = source;
    const size = () => {
      image.style.maxWidth = `${LARGEST * image.naturalWidth}px`;
      image.style.maxHeight = `${LARGEST * image.naturalHeight}px`;
    };
    if (image.complete) size();
    image.addEventListener("load", size);
  }
  image.alt = alt;
  return image;
}

export function prefetch(position, options) {
  const image = picture(position, options);
  image.decode?.().catch(() => {});
  kept.set(`/image/${position}${options?.small ? "?small=1" : ""}`, image);
  // The browser's own cache holds what is dropped here.
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
}

function sheet(cells, others = []) {
  const heads = others.map((other) => el("th", { scope: "col" }, other.head));
  const rows = cells.map(([name, value], k) =>
    el("tr", {}, el("th", { scope: "row", dir: "auto" }, name), el("td", { dir: "auto" }, value),
      ...others.map((other) => el("td", { class: "quiet", dir: "auto" }, other.cells[k]?.[1] ?? ""))));
  return el("table", {},
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Column"), el("th", { scope: "col" }, "This row"), ...heads)),
    el("tbody", {}, ...rows));
}

function player(row) {
  return el("audio", { controls: "", preload: "none", src: `/sound/${row.position}`, "aria-label": `Sound of row ${row.id ?? ""}` });
}

// The content of one row, large.
export function shown(row, others = []) {
  const { kind } = row.content;
  if (kind === "image") {
    const image = picture(row.position, { alt: row.id ? `Row ${row.id}` : "The row to check" });
    return el("button", { type: "button", class: "look", "aria-label": `Enlarge ${image.alt}`, onclick: () => look(row) }, image);
  }
  if (kind === "sound") return player(row);
  if (kind === "text") return el("div", { class: "passage", dir: "auto", tabindex: "0", role: "region", "aria-label": "Text of the row" }, row.content.text);
  if (kind === "table") return el("div", { class: "sheet", tabindex: "0", role: "region", "aria-label": "Cells of the row" }, sheet(row.content.cells, others));
  return el("p", { class: "nothing" }, "This row cannot be shown: it is gone from the source, or has changed since the run was made.");
}

// The content of one row, small, inside of a list.
export function snippet(row) {
  const { kind } = row.content;
  if (kind === "image") return picture(row.position, { small: true, alt: `Row ${row.id}` });
  if (kind === "sound") return player(row);
  if (kind === "text") return el("p", { dir: "auto" }, row.content.text);
  if (kind === "table") return el("p", { dir: "auto" }, row.content.cells.slice(0, 4).map(([name, value]) => `${name}: ${value}`).join(", "));
  return el("p", { class: "quiet" }, "cannot be shown");
}

// One row alone in the window: an image as large as it goes, or a whole text.
export async function look(row) {
  const box = byId("zoom-box");
  box.classList.remove("close-up");
  box.replaceChildren(row.content.kind === "image"
    ? Object.assign(new Image(), { src: `/image/${row.position}`, alt: row.id ?? "The row to check" })
    : shown(await get(`/api/row/${row.position}`)));
  byId("zoom").showModal();
}
