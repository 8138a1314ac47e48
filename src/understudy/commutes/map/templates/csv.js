// The selected counts as a CSV file.

/** One cell. Text that a spreadsheet would take for a formula gets an apostrophe before it. */
export function csvCell(value) {
  let text = value === null || value === undefined || Number.isNaN(value) ? "" : String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text) && !/^[+-]?\d+(\.\d+)?$/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Rows as a CSV text, with lines about what they are before them (as comments that begin with #). */
export function csvText(comments, header, rows) {
  const lines = comments.map((comment) => `# ${comment.replace(/[\r\n]+/g, " ")}`);
  lines.push(header.map(csvCell).join(","));
  for (const row of rows) lines.push(row.map(csvCell).join(","));
  return `${lines.join("\r\n")}\r\n`;
}
