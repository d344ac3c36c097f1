/** Comma-separated values of RFC 4180. */

export function renderCsv(lines: Iterable<readonly string[]>): string {
  let text = "";
  for (const line of lines) text += `${line.map(quoted).join(",")}\n`;
  return text;
}

/** Total: unbalanced quotes end with the text. Empty lines are left out. */
export function parseCsv(text: string): readonly (readonly string[])[] {
  const lines: string[][] = [];
  let line: string[] = [];
  for (const [, quotedField, plainField, end] of text.matchAll(FIELD)) {
    line.push(quotedField === undefined ? (plainField ?? "") : quotedField.replaceAll('""', '"'));
    if (end === ",") continue;
    if (line.length > 1 || line[0] !== "") lines.push(line);
    line = [];
  }
  return lines;
}

/** One field and the separator after it. */
const FIELD = /(?:"((?:[^"]|"")*)"?|([^,\r\n]*))(,|\r?\n|$)/g;

function quoted(field: string): string {
  return /[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
}
