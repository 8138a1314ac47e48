"use strict";
// A picture is in the page once; its download link borrows it.
for (const link of document.querySelectorAll("a.picture")) {
  link.href = link.closest("figure").querySelector("img").src;
}
// On a phone these are folded too.
for (const one of document.querySelectorAll("#protected, .attacks-tried")) one.open = innerWidth > 830;
// A link to a folded part opens it.
const unfold = () => { const part = location.hash.length > 1 && document.getElementById(location.hash.slice(1)); if (part) {
  for (let one = part; one; one = one.parentElement) { if (one.tagName === "DETAILS") one.open = true; } } };
addEventListener("hashchange", unfold); unfold();
// On paper everything is open.
const closed = [];
addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("details:not([open])")) { closed.push(one); one.open = true; }
});
addEventListener("afterprint", () => { while (closed.length) closed.pop().open = false; });
