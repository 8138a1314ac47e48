// The search field: a list of matches under it, for mouse and keys alike (the ARIA pattern "combobox with list").

import { element } from "./panel.js";

export function makeCombobox(input, list, search, choose) {
  let matches = [];
  let active = -1;

  const close = () => {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const mark = (number) => {
    active = number;
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === number)));
    if (number < 0) return input.removeAttribute("aria-activedescendant");
    list.children[number].scrollIntoView({ block: "nearest" });
    return input.setAttribute("aria-activedescendant", list.children[number].id);
  };
  const take = (number) => {
    const match = matches[number];
    if (!match) return;
    input.value = "";
    close();
    choose(match);
  };
  const open = () => {
    matches = search.find(input.value);
    list.replaceChildren(
      ...matches.map((match, i) => {
        const item = element("li", { id: `found-${i}`, role: "option" }, match.label, element("span", {}, match.note));
        item.addEventListener("pointerdown", (event) => event.preventDefault()); // the field keeps the focus
        item.addEventListener("click", () => take(i));
        return item;
      }),
    );
    if (!matches.length) list.append(element("li", { className: "none", role: "option" }, "No place or area has this id or name."));
    list.hidden = input.value.trim() === "";
    input.setAttribute("aria-expanded", String(!list.hidden));
    mark(matches.length && !list.hidden ? 0 : -1);
  };

  input.addEventListener("input", open);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) open();
      else if (matches.length) mark((active + (event.key === "ArrowDown" ? 1 : matches.length - 1)) % matches.length);
    } else if (event.key === "Enter" && !list.hidden) {
      event.preventDefault();
      take(active);
    } else if (event.key === "Escape") {
      close();
    }
  });
}
