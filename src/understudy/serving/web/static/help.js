// Help while typing a question: words that can stand where the cursor is. Everything works without it.
"use strict";
(() => {
  const box = document.getElementById("question");
  const list = document.getElementById("suggestions");
  const data = document.getElementById("words");
  if (!box || !list || !data) return;
  const words = JSON.parse(data.textContent);
  const names = Object.keys(words.attributes); // names and levels come as a question writes them
  const bare = (text) => text.replace(/^['"`]/, "").toLowerCase();
  const MOST = 14;

  // Behind `attribute ==` its levels, at the beginning the kinds of questions, elsewhere the attributes.
  function found(text) {
    const level = text.match(/(\w+|`[^`]*`)\s*(?:==|!=)\s*(['"]?[^'"()]*)$/);
    if (level) {
      const start = text.length - level[0].length + level[0].search(/(==|!=)/) + 2;
      return (words.attributes[level[1]] || [])
        .filter((one) => bare(one).startsWith(bare(level[2].trim())))
        .map((one) => [one.slice(1, -1), text.slice(0, start) + " " + one]);
    }
    const last = text.match(/[A-Za-z_]\w*$/);
    const begun = last ? last[0] : "";
    const before = text.slice(0, text.length - begun.length);
    const kinds = before.trim() === "" || /[-/]\s*$/.test(before) ? words.kinds.map((one) => one + "(") : [];
    const choice = kinds.length && begun === "" ? kinds : [...kinds, ...names];
    return choice
      .filter((one) => bare(one).startsWith(begun.toLowerCase()) && one !== begun)
      .map((one) => [one, before + one]);
  }

  function show() {
    list.replaceChildren();
    for (const [word, whole] of found(box.value.slice(0, box.selectionStart)).slice(0, MOST)) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = word;
      button.addEventListener("click", () => {
        const rest = box.value.slice(box.selectionStart);
        box.value = whole + rest;
        box.setSelectionRange(whole.length, whole.length);
        box.focus();
        show();
      });
      const item = document.createElement("li");
      item.append(button);
      list.append(item);
    }
  }
  box.addEventListener("input", show);
  box.addEventListener("click", show);
  // Somebody who typed before this script was there has help at once; a question that was asked is left alone.
  if (!box.value || box.value !== box.defaultValue) show();
})();
