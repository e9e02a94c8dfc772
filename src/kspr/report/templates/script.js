"use strict";
(() => {
  const find = (id) => document.getElementById(id);

  const table = find("class-table");
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
  };
  const sort = (column) => {
    const head = heads[column];
    const numeric = head.classList.contains("n");
    const before = head.getAttribute("aria-sort");
    const down = before ? before === "ascending" : numeric;
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => {
      const [x, y] = [key(a, column), key(b, column)];
      const order = numeric ? x - y : x.localeCompare(y, undefined, { numeric: true });
      return down ? -order : order;
    });
    table.tBodies[0].append(...rows);
  };
  heads.forEach((head, column) => {
    head.classList.add("sortable");
    head.tabIndex = 0;
    head.addEventListener("click", () => sort(column));
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        sort(column);
      }
    });
  });

  const controls = find("controls");
  if (!controls) return;
  const cards = [...find("suspect-cards").children];
  const [byClass, byText] = [find("by-class"), find("by-text")];
  const filter = () => {
    const wanted = byText.value.trim().toLowerCase();
    let shown = 0;
    for (const card of cards) {
      const hit =
        (byClass.selectedIndex === 0 || card.dataset.given === byClass.value) &&
        card.dataset.search.includes(wanted);
      card.hidden = !hit;
      shown += hit;
    }
    find("shown").textContent = `${shown} of ${cards.length}`;
    find("none-left").hidden = shown > 0;
  };
  controls.hidden = false;
  controls.addEventListener("input", filter);
  controls.addEventListener("submit", (event) => event.preventDefault());
  filter();
})();
