// Pieces of the page. All text goes through textContent: nothing in the data can become markup.

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

export const percent = (value) => `${Number((100 * value).toPrecision(3))} %`;
export const count = (value) => value.toLocaleString("en");

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
    const size = () => image.classList.toggle("tiny", Math.max(image.naturalWidth, image.naturalHeight) < 48);
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
    el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value),
      ...others.map((other) => el("td", { class: "quiet" }, other.cells[k]?.[1] ?? ""))));
  return el("table", {},
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Column"), el("th", { scope: "col" }, "This row"), ...heads)),
    el("tbody", {}, ...rows));
}

// The content of one row, large.
export function shown(row, { look, others = [] } = {}) {
  const { kind } = row.content;
  if (kind === "image") {
    const image = picture(row.position, { alt: row.id ? `Row ${row.id}` : "The row to check" });
    return el("button", { type: "button", class: "look", "aria-label": `Enlarge ${image.alt}`, onclick: look }, image);
  }
  if (kind === "text") return el("div", { class: "passage", tabindex: "0", role: "region", "aria-label": "Text of the row" }, row.content.text);
  if (kind === "table") return el("div", { class: "sheet", tabindex: "0", role: "region", "aria-label": "Cells of the row" }, sheet(row.content.cells, others));
  return missing();
}

export const missing = () =>
  el("p", { class: "nothing" }, "This row cannot be shown: it is gone from the source, or has changed since the run was made.");

// The content of one row, small, inside of a list.
export function snippet(row) {
  const { kind } = row.content;
  if (kind === "image") return picture(row.position, { small: true, alt: `Row ${row.id}` });
  if (kind === "text") return el("p", {}, row.content.text);
  if (kind === "table") return el("p", {}, row.content.cells.slice(0, 4).map(([name, value]) => `${name}: ${value}`).join(", "));
  return el("p", { class: "quiet" }, "cannot be shown");
}
