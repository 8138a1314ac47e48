// The selected counts by place, as a file.

import { csvText } from "./csv.js";
import { LETTERS } from "./panel.js";
import { rangeOf } from "./uncertainty.js";

/** CSV of the jobs at every place of the other side. `summaries` count by place, one for each release. */
export function countsCsv(world, selection, title, summaries) {
  const { places, levels, releases } = world;
  const several = summaries.length > 1;
  const comments = [
    "Synthetic data: no row is a person.",
    ...releases.map((flows, i) => `${several ? `${LETTERS[i]}: ` : ""}${flows.about.promise}`),
    title,
    "low and high: the range of the real count; empty where the release does not state its law",
  ];
  const header = [selection.side === "dest" ? "home" : "workplace", "name", ...levels.map((level) => level.name)];
  summaries.forEach((_, i) => {
    for (const column of ["jobs", "low", "high"]) header.push(several ? `${column}_${LETTERS[i]}` : column);
  });
  const rows = [];
  for (let place = 0; place <= places.count; place += 1) {
    if (summaries.every((summary) => !summary.groups[place])) continue;
    const away = place === places.elsewhere;
    const row = away ? ["elsewhere", ""] : [places.ids[place], places.names[place] ?? ""];
    for (const level of levels) row.push(away ? "" : level.areas[level.of[place]]);
    for (const { groups, groupReach, jobs } of summaries) {
      const range = groupReach ? rangeOf(groups[place], groupReach[place], jobs) : ["", ""];
      row.push(groups[place], ...range);
    }
    rows.push(row);
  }
  return csvText(comments, header, rows);
}

/** Hand a text to the browser as a file to keep. */
export function offerFile(text, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
