"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const make = (tag, name, text) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  const table = find("class-table");
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const allClasses = find("all-classes");
  const fold = () => {
    if (!allClasses) return;
    const first = Number(table.dataset.first);
    const all = allClasses.getAttribute("aria-expanded") === "true";
    [...body.rows].forEach((row, place) => (row.hidden = !all && place >= first));
  };
  if (allClasses) {
    allClasses.hidden = false;
    allClasses.addEventListener("click", () => {
      allClasses.setAttribute("aria-expanded", "true");
      allClasses.hidden = true;
      fold();
    });
    fold();
  }
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
    const rows = [...body.rows];
    rows.sort((a, b) => {
      const [x, y] = [key(a, column), key(b, column)];
      const order = numeric ? x - y : x.localeCompare(y, undefined, { numeric: true });
      return down ? -order : order;
    });
    body.append(...rows);
    fold();
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
  const data = JSON.parse(find("suspect-data").textContent);
  const list = find("suspect-cards");
  // The first cards are part of the page; the others are made from the data.
  const written = [...list.children];
  const total = data.id.length;
  const suggested = (n) => (data.suggested[n] < 0 ? null : data.classes[data.suggested[n]]);
  const given = (n) => data.classes[data.given[n]];
  const said = (column, n) => data[column][0][data[column][1][n]];
  const content = (n) => data.content[n - written.length];
  const text = (n) => {
    if (n < written.length) return written[n].querySelector(".words")?.textContent ?? "";
    const found = content(n);
    return found && found[0] === "t" ? found.slice(1) : "";
  };
  // As `kspr._text.shorten`: names often differ at their end only.
  const shorten = (name, length) => {
    const tail = Math.floor((length - 1) / 2);
    return name.length <= length ? name : `${name.slice(0, length - 1 - tail)}…${name.slice(-tail)}`;
  };

  const shownContent = (n) => {
    if (!data.kind) return null;
    const found = content(n);
    const letter = found ? found[0] : "";
    if (letter === "i" || letter === "I") {
      const image = make("img", letter === "I" ? "tiny" : "");
      image.alt = `Row ${data.id[n]}, given label ${given(n)}`;
      image.decoding = "async";
      image.src = `data:image/jpeg;base64,${found.slice(1)}`;
      const button = make("button", "look picture");
      button.type = "button";
      button.append(image);
      return button;
    }
    if (letter === "t") {
      const button = make("button", "look words");
      button.type = "button";
      const words = make("span", "", found.slice(1) || "(no text)");
      words.dir = "auto";
      button.append(words);
      return button;
    }
    const words = letter === "u" ? "cannot be read" : data.kind === "image" ? "picture left out" : "text left out";
    return make("div", "picture placeholder", words);
  };
  const labelsOf = (n) => {
    const other = suggested(n);
    const own = make("bdi", "given", given(n));
    own.title = given(n);
    if (other === null) return [own, make("span", "same", "no label fits better")];
    const line = make("span", "suggested");
    const arrow = make("span", "arrow", "→");
    arrow.setAttribute("role", "img");
    arrow.setAttribute("aria-label", "suggested");
    const name = make("bdi", "", other);
    name.title = other;
    line.append(arrow, " ", name);
    return [own, " ", line];
  };
  const newCard = (n) => {
    const card = make("li", "card");
    const shown = shownContent(n);
    if (shown) card.append(shown);
    const facts = make("div", "facts");
    const labels = make("p", "labels");
    labels.append(...labelsOf(n));
    const doubt = make("p", "doubt");
    if (said("hint", n)) doubt.title = said("hint", n);
    const meter = make("span", "meter");
    meter.style.setProperty("--part", `${(100 * data.doubt[n]).toFixed(1)}%`);
    doubt.append(meter, make("span", "judged", said("judged", n)));
    facts.append(labels, doubt);
    if (said("truth", n)) facts.append(make("p", "truth", said("truth", n)));
    const id = make("p", "row-id", shorten(data.id[n], 22));
    id.title = data.id[n];
    facts.append(id);
    card.append(facts);
    return card;
  };
  const cardOf = (n) => {
    const card = n < written.length ? written[n] : newCard(n);
    card.dataset.n = n;
    return card;
  };

  const [byGiven, bySuggested, byText] = [find("by-given"), find("by-suggested"), find("by-text")];
  const fill = (select, codes) => {
    const counts = new Map();
    for (const code of codes) counts.set(code, (counts.get(code) ?? 0) + 1);
    const order = [...counts].sort((a, b) => a[0] - b[0]);
    for (const [code, count] of order) {
      const name = code < 0 ? "no label fits better" : data.classes[code];
      const option = make("option", "", `${shorten(name, 40)} (${count.toLocaleString("en")})`);
      option.value = code;
      select.append(option);
    }
  };
  fill(byGiven, data.given);
  fill(bySuggested, data.suggested);

  const MORE = 84;
  let hits = [];
  let made = 0;
  const more = find("more");
  const showMore = (count) => {
    const next = hits.slice(made, made + count);
    list.append(...next.map(cardOf));
    made += next.length;
    more.hidden = made >= hits.length;
    more.textContent = `show ${Math.min(MORE, hits.length - made)} more`;
  };
  const filter = () => {
    const pile = controls.elements.pile.value;
    const wanted = byText.value.trim().toLowerCase();
    hits = [];
    for (let n = 0; n < total; n += 1) {
      if (pile !== "" && data.wrong[n] !== Number(pile)) continue;
      if (byGiven.value !== "" && data.given[n] !== Number(byGiven.value)) continue;
      if (bySuggested.value !== "" && data.suggested[n] !== Number(bySuggested.value)) continue;
      if (wanted) {
        const parts = [data.id[n], given(n), suggested(n) ?? "", said("truth", n), text(n)];
        if (!parts.join("\n").toLowerCase().includes(wanted)) continue;
      }
      hits.push(n);
    }
    list.replaceChildren();
    made = 0;
    showMore(written.length);
    find("shown").textContent = `${hits.length.toLocaleString("en")} of ${total.toLocaleString("en")} suspects`;
    find("none-left").hidden = hits.length > 0;
    find("clear").hidden = hits.length === total;
  };
  more.addEventListener("click", () => {
    const first = made;
    showMore(MORE);
    // The button may have moved away from the keyboard's user.
    list.children[first]?.querySelector("button")?.focus({ preventScroll: true });
  });
  controls.hidden = false;
  find("needs-script")?.remove();
  controls.addEventListener("input", filter);
  controls.addEventListener("submit", (event) => event.preventDefault());
  find("clear").addEventListener("click", () => {
    controls.reset();
    filter();
  });
  for (const button of document.querySelectorAll(".matrix button")) {
    button.disabled = false;
    button.addEventListener("click", () => {
      controls.reset();
      const [row, column] = [button.dataset.given, button.dataset.suggested];
      byGiven.value = data.classes.indexOf(row);
      bySuggested.value = row === column ? -1 : data.classes.indexOf(column);
      filter();
      find("shown").scrollIntoView({ block: "start" });
    });
  }

  // A spreadsheet takes a cell that begins so for a formula.
  const cell = (value) => {
    const plain = String(value ?? "");
    const safe = /^[=+\-@\t\r]/.test(plain) ? `'${plain}` : plain;
    return `"${safe.replaceAll('"', '""')}"`;
  };
  const csv = find("csv");
  csv.addEventListener("click", () => {
    const texts = data.kind === "text";
    const lines = [`id,given_label,suggested_label,judged,doubt,smallest_q${texts ? ",text" : ""}`];
    for (const n of hits) {
      const pile = data.wrong[n] ? "probably wrong" : "uncertain";
      const words = [data.id[n], given(n), suggested(n), pile].map(cell);
      const more = texts ? [cell(text(n))] : [];
      lines.push([...words, data.doubt[n], data.q[n] ?? "", ...more].join(","));
    }
    // The mark at the start tells spreadsheets that the file is UTF-8.
    const file = new Blob(["\ufeff", lines.join("\r\n"), "\r\n"], { type: "text/csv" });
    if (csv.href.startsWith("blob:")) URL.revokeObjectURL(csv.href);
    csv.href = URL.createObjectURL(file);
  });

  const look = find("look");
  let place = 0;
  const show = (to) => {
    if (to < 0 || to >= hits.length) return;
    place = to;
    const n = hits[to];
    const source = (n < written.length ? written[n] : newCard(n)).querySelector(".picture, .words");
    const inside = source ? [...source.cloneNode(true).childNodes] : [];
    find("look-content").replaceChildren(...inside);
    find("look-labels").replaceChildren(...labelsOf(n));
    const facts = [`Row ${data.id[n]}`, said("judged", n), said("hint", n), said("truth", n)];
    find("look-facts").replaceChildren(...facts.filter(Boolean).map((fact) => make("span", "", fact)));
    find("look-place").textContent = `${(to + 1).toLocaleString("en")} of ${hits.length.toLocaleString("en")}`;
    find("look-before").disabled = to === 0;
    find("look-after").disabled = to === hits.length - 1;
  };
  list.addEventListener("click", (event) => {
    const card = event.target.closest(".look")?.closest(".card");
    if (!card) return;
    show(hits.indexOf(Number(card.dataset.n)));
    look.showModal();
  });
  find("look-before").addEventListener("click", () => show(place - 1));
  find("look-after").addEventListener("click", () => show(place + 1));
  find("look-close").addEventListener("click", () => look.close());
  look.addEventListener("click", (event) => event.target === look && look.close());
  look.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") show(place - 1);
    if (event.key === "ArrowRight") show(place + 1);
  });

  filter();
})();
