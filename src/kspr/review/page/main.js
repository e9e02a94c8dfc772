// The page as a whole: who reviews, which queue is open, and where keys go.

import * as api from "./api.js";
import { state } from "./api.js";
import * as check from "./check.js";
import * as fix from "./fix.js";
import { byId, say } from "./parts.js";
import * as progress from "./progress.js";
import * as settle from "./settle.js";

const OPEN = { check: check.load, fix: () => fix.load(), settle: settle.load, decisions: settle.listDecisions };
const here = () => (location.hash.slice(1) in OPEN ? location.hash.slice(1) : "check");

async function open() {
  const name = here();
  for (const tab of document.querySelectorAll(".tabs a")) {
    if (tab.dataset.tab === name) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  for (const part of Object.keys(OPEN)) byId(part).hidden = part !== name;
  byId(name).querySelector("h2").focus({ preventScroll: true });
  // Others may have answered meanwhile.
  progress.refresh();
  try { await OPEN[name](); } catch { /* said already */ }
}

// ---- who

const COOKIE = "kspr_reviewer";

function remembered() {
  const found = document.cookie.split("; ").find((part) => part.startsWith(`${COOKIE}=`));
  return found ? decodeURIComponent(found.slice(COOKIE.length + 1)) : null;
}

function ask() {
  byId("ask-name").value = state.reviewer ?? remembered() ?? "";
  byId("ask").showModal();
}

async function become(name) {
  state.reviewer = name;
  sessionStorage.setItem(COOKIE, name);
  // Not of this address alone: the port may be another one next time.
  document.cookie = `${COOKIE}=${encodeURIComponent(name)}; SameSite=Strict; Path=/; Max-Age=31536000`;
  byId("who-name").textContent = name;
  await open();
}

// ---- keys

const fields = "input:not([type=checkbox]):not([type=range]), textarea, select";

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches?.(fields)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "?") {
    event.preventDefault();
    byId("help").showModal();
  } else {
    ({ check, fix })[here()]?.key(event);
  }
}

async function begin() {
  const start = await api.get("/api/start");
  Object.assign(state, { classes: start.classes, blind: start.blind, hasDoubt: start.has_doubt });
  say("guidelines", start.guidelines);
  byId("guide").hidden = !start.guidelines;
  for (const part of [check, fix, settle, progress]) part.begin();
  document.addEventListener("keydown", keys);
  addEventListener("hashchange", open);
  byId("who").addEventListener("click", ask);
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  for (const close of document.querySelectorAll("dialog .close")) close.addEventListener("click", () => close.closest("dialog").close());
  byId("ask-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = byId("ask-name").value.trim();
    if (!name) return;
    byId("ask").close();
    become(name).catch(() => {});
  });
  const known = sessionStorage.getItem(COOKIE) ?? start.reviewer ?? remembered();
  if (known) await become(known);
  else ask();
  document.documentElement.dataset.ready = "1";
}

begin().catch(() => {});
