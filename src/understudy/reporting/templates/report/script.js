"use strict";
// A picture is in the page once; its download link borrows it.
for (const link of document.querySelectorAll("a.picture")) {
  link.href = link.closest("figure").querySelector("img").src;
}
// On paper everything is open.
const closed = [];
addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("figure details:not([open])")) { closed.push(one); one.open = true; }
});
addEventListener("afterprint", () => { while (closed.length) closed.pop().open = false; });
