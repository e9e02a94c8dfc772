"use strict";
(() => {
  const find = (id) => document.getElementById(id);

  // A link to a folded section opens it before the browser goes there, and paper shows all of them.
  const go = (hash) => {
    const target = hash.length > 1 && find(decodeURIComponent(hash.slice(1)));
    if (!target) return;
    const details = target.querySelector(":scope > details");
    if (details) details.open = true;
    // Cards that come into view have other heights than were assumed for them: go there again.
    let left = 3;
    const again = () => {
      target.scrollIntoView();
      if ((left -= 1) > 0) requestAnimationFrame(again);
    };
    requestAnimationFrame(again);
  };
  addEventListener("hashchange", () => go(location.hash));
  for (const link of document.querySelectorAll('a[href^="#"]:not([download])')) {
    link.addEventListener("click", () => go(link.hash));
  }
  go(location.hash);
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });

  for (const button of document.querySelectorAll(".copy")) {
    const code = button.previousElementSibling;
    button.hidden = false;
    button.addEventListener("click", async () => {
      getSelection().selectAllChildren(code);
      try {
        await navigator.clipboard.writeText(code.textContent);
      } catch {
        document.execCommand("copy");
      }
      button.textContent = "copied";
      setTimeout(() => (button.textContent = "copy"), 1500);
    });
  }
})();
