// Saves waiting and scrolling: shows how far work is, and only the fields that matter. Everything works without it.
"use strict";
(() => {
  const problem = document.getElementById("problem");
  if (problem) problem.focus();

  // Only the fields that go with the kind that is chosen.
  function follow(name, attribute) {
    const choices = [...document.querySelectorAll(`input[name="${name}"]`)];
    const parts = [...document.querySelectorAll(`[${attribute}]`)];
    if (!choices.length || !parts.length) return;
    const show = () => {
      const chosen = choices.find((one) => one.checked);
      for (const part of parts) part.hidden = !chosen || !part.getAttribute(attribute).split(" ").includes(chosen.value);
    };
    for (const one of choices) one.addEventListener("change", show);
    show();
  }
  follow("kind", "data-for");
  follow("who", "data-for-who");
  follow("account", "data-for-account");
  follow("sign", "data-for-sign");

  // A number that somebody types is the one that they mean.
  const other = document.getElementById("other");
  const radio = document.getElementById("epsilon-other");
  if (other && radio) other.addEventListener("input", () => { radio.checked = true; });

  // How far work is.
  const working = document.getElementById("working");
  if (!working) return;
  const bar = document.getElementById("bar");
  const phase = document.getElementById("phase");
  let said = "";
  async function look() {
    let wait = 700;
    try {
      const answer = await fetch(working.dataset.progress, { cache: "no-store" });
      const now = await answer.json();
      if (now.state !== "running") {
        location.replace(working.dataset.next);
        return;
      }
      if (now.percent === null) bar.removeAttribute("value");
      else bar.value = now.percent;
      const part = now.percent === null ? "" : `, ${now.percent} percent`;
      const text = now.phase || "beginning";
      const told = `${text.charAt(0).toUpperCase()}${text.slice(1)}${part} ...`;
      if (told !== said) phase.textContent = said = told;
    } catch {
      wait = 3000; // the studio may be busy, or ended
    }
    setTimeout(look, wait);
  }
  setTimeout(look, 300);
})();
