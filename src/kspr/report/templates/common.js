"use strict";
(() => {
  const find = (id) => document.getElementById(id);

  // A link to a folded section opens it, and paper shows all of them.
  const unfold = () => {
    const target = location.hash.length > 1 && find(location.hash.slice(1));
    const details = target && target.querySelector(":scope > details");
    if (details) details.open = true;
  };
  addEventListener("hashchange", unfold);
  unfold();
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
