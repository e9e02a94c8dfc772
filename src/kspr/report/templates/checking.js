"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const make = (tag, text) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const data = JSON.parse(find("checking-data").textContent);
  const total = data.id.length;
  const [NONE, UNSURE] = [-1, -2];
  const box = find("checking-box");
  const content = find("checking-content");
  const field = find("checking-field");

  // One answer after the other, in the order of the draw: a class, NONE or UNSURE.
  let answers = [];
  let inStorage = true;
  let unsaved = false;
  const sound = (found) =>
    Array.isArray(found) && found.length <= total &&
    found.every((code) => Number.isInteger(code) && code >= UNSURE && code < data.classes.length);
  const read = () => {
    try {
      const found = JSON.parse(localStorage.getItem(data.key));
      if (sound(found)) answers = found;
    } catch {
      // No storage, or not our text in it: `keep` finds out which.
    }
  };
  const keep = () => {
    try {
      localStorage.setItem(data.key, JSON.stringify(answers));
    } catch {
      inStorage = false;
    }
  };

  const named = (code) => (code === NONE ? "none of the classes" : code === UNSURE ? "cannot tell" : data.classes[code]);
  const plain = (name) => name.toLowerCase();
  // The class of exactly that name comes first, so that "cat" can be chosen beside "catfish".
  const matches = (typed) => {
    const wanted = plain(typed.trim());
    const fits = (name) => plain(name).startsWith(wanted) || plain(name).split(/\s+/).some((word) => word.startsWith(wanted));
    const found = data.classes.map((_, code) => code).filter((code) => fits(data.classes[code]));
    return found.sort((a, b) => (plain(data.classes[b]) === wanted) - (plain(data.classes[a]) === wanted));
  };

  const SHOWN = 40;
  const classButton = (code) => {
    const button = make("button");
    button.type = "button";
    if (data.keys[code]) button.append(make("kbd", data.keys[code]));
    button.append(make("bdi", data.classes[code]));
    button.title = data.classes[code];
    button.addEventListener("click", () => answer(code));
    return button;
  };
  const showClasses = () => {
    const found = matches(field.value);
    const more = found.length - SHOWN;
    const end = more > 0 ? [make("p", `and ${more.toLocaleString("en")} more: type`)] : found.length ? [] : [make("p", "No class begins so.")];
    find("checking-classes").replaceChildren(...found.slice(0, SHOWN).map(classButton), ...end);
  };

  const contentOf = (n) => {
    const [letter, rest] = [data.content[n][0], data.content[n].slice(1)];
    if (letter === "i" || letter === "I") {
      const image = make("img");
      if (letter === "I") image.className = "tiny";
      image.alt = `Row ${data.id[n]}`;
      image.src = `data:image/jpeg;base64,${rest}`;
      return image;
    }
    const words = make("p", letter === "t" ? rest || "(no text)" : letter === "u" ? `Row ${data.id[n]} cannot be read.` :
      `Row ${data.id[n]}. This file has neither a picture nor a text of it: look it up by this name.`);
    words.dir = "auto";
    return words;
  };
  const label = (button, code) => {
    button.querySelector("bdi").textContent = code < 0 ? "no label fits better" : data.classes[code];
    button.disabled = code < 0;
  };
  const render = (said) => {
    const n = answers.length;
    const done = n === total;
    find("checking-done").value = n;
    find("checking-row").hidden = done;
    find("checking-end").hidden = !done;
    find("checking-undo").disabled = n === 0;
    find("checking-place").textContent = done ? "Done" : `Row ${n + 1} of ${total}`;
    find("checking-start").textContent = done ? "look again" : n ? "go on checking" : "start checking";
    find("checking-progress").textContent = n ? `${n} of ${total} checked` : "";
    document.querySelector("#checking .checking-save").hidden = n === 0;
    find("checking-memory").hidden = inStorage;
    find("checking-id").textContent = done ? "" : data.id[n];
    field.value = "";
    if (!done) {
      content.replaceChildren(contentOf(n));
      content.scrollTop = 0;
      label(find("checking-given"), data.given[n]);
      label(find("checking-suggested"), data.suggested[n]);
      showClasses();
    }
    if (said !== undefined) find("checking-said").textContent = said;
    // Away from the button that was pressed: the next space or Enter is about the next row.
    if (box.open) (done ? document.querySelector("#checking-end .checking-save") : content).focus();
  };
  // A letter that waits: "s" and "u" may be the beginning of a class.
  let waiting = null;
  const forget = () => {
    clearTimeout(waiting?.timer);
    waiting = null;
  };
  const answer = (code) => {
    forget();
    if (answers.length === total) return;
    answers.push(code);
    unsaved = true;
    keep();
    render(`Row ${answers.length}: ${named(code)}.`);
  };
  const undo = () => {
    forget();
    if (!answers.length) return;
    answers.pop();
    unsaved = true;
    keep();
    render(`The answer to row ${answers.length + 1} is taken back.`);
  };

  // Who types on after two letters have chosen must not answer the next row with the third.
  const PAUSE = 600;
  let typedAt = -PAUSE;
  const choose = () => {
    const [typed, found] = [plain(field.value.trim()), matches(field.value)];
    const enough = typed.length > 1 || (found.length === 1 && plain(data.classes[found[0]]) === typed);
    if (found.length === 1 && enough) {
      typedAt = performance.now();
      answer(found[0]);
    } else showClasses();
  };
  field.addEventListener("input", (event) => event.isComposing || choose());
  const inField = (event) => {
    if (event.key === "Enter") {
      const found = field.value.trim() ? matches(field.value) : [];
      if (found.length) answer(found[0]);
    } else if (event.key === "Escape") {
      field.value = "";
      showClasses();
      content.focus();
    } else return;
    event.preventDefault();
  };
  const type = (letters) => {
    forget();
    field.value = letters;
    field.focus();
    choose();
  };
  const ACTS = { s: () => answer(UNSURE), u: undo };
  const wait = (letter) => {
    const begins = answers.length < total && matches(letter).length > 0;
    waiting = begins ? { letter, timer: setTimeout(ACTS[letter], PAUSE) } : null;
    if (!begins) ACTS[letter]();
  };
  const toggleHelp = () => {
    const keys = find("checking-keys");
    keys.hidden = !keys.hidden;
    find("checking-help").setAttribute("aria-expanded", String(!keys.hidden));
  };
  const isLetter = (key) => /^\p{L}$/u.test(key);
  const onKey = (key) => {
    const n = answers.length;
    const byDigit = key >= "1" && key <= "9" ? data.keys.indexOf(key) : -1;
    if (key in ACTS) wait(key);
    else if (key === "?") toggleHelp();
    else if (n === total) return false;
    else if (key === " ") answer(data.given[n]);
    else if (key === "Enter" && data.suggested[n] >= 0) answer(data.suggested[n]);
    else if (key === "0") answer(NONE);
    else if (byDigit >= 0) answer(byDigit);
    else if (key === "/") field.focus();
    else if (isLetter(key)) type(key);
    else return false;
    return true;
  };
  box.addEventListener("keydown", (event) => {
    // A key that is held down must not answer one row after the other.
    if (event.repeat || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === field) return inField(event);
    const key = event.key.length === 1 ? plain(event.key) : event.key;
    const presses = (key === " " || key === "Enter") && event.target.closest("button, a");
    if (presses) return;
    const typing = isLetter(key) && event.timeStamp - typedAt < PAUSE;
    if (typing) typedAt = event.timeStamp;
    else if (waiting && isLetter(key)) type(waiting.letter + key);
    else {
      // Any other key: what waits was meant as it stands.
      if (waiting) ACTS[waiting.letter]();
      if (!onKey(key)) return;
    }
    event.preventDefault();
  });

  const on = (id, act) => find(id).addEventListener("click", act);
  on("checking-given", () => answer(data.given[answers.length]));
  on("checking-suggested", () => answer(data.suggested[answers.length]));
  on("checking-none", () => answer(NONE));
  on("checking-unsure", () => answer(UNSURE));
  on("checking-undo", undo);
  on("checking-back", undo);
  on("checking-help", toggleHelp);
  on("checking-close", () => box.close());
  on("checking-start", () => {
    box.showModal();
    render();
  });

  const cellOf = (code) => (code === undefined ? "" : code === NONE ? data.none : code === UNSURE ? data.unsure : data.answers[code]);
  for (const link of document.querySelectorAll(".checking-save")) {
    link.addEventListener("click", () => {
      const lines = data.before.map((before, n) => [before, cellOf(answers[n]), data.after[n]].join(","));
      // The mark at the start tells spreadsheets that the file is UTF-8.
      const file = new Blob(["\ufeff", [data.columns, ...lines, ""].join("\r\n")], { type: "text/csv" });
      if (link.href.startsWith("blob:")) URL.revokeObjectURL(link.href);
      link.href = URL.createObjectURL(file);
      unsaved = false;
    });
  }
  addEventListener("beforeunload", (event) => {
    if (!inStorage && unsaved) event.preventDefault();
  });
  // Another tab with the same file.
  addEventListener("storage", (event) => {
    if (event.key !== data.key) return;
    read();
    render();
  });

  read();
  keep();
  find("checking-needs-script").remove();
  find("checking-panel").hidden = false;
  render();
})();
