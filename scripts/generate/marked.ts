/** Pages that are partly written by hand: what is generated stands between two marks. */
import { readFileSync } from "node:fs";

const root = new URL("../../", import.meta.url);

/** The page with the lines between `<!-- name -->` and `<!-- end of name -->` renewed. */
export function renewPart(path: string, name: string, lines: readonly string[]): string {
  return renewed(readFileSync(new URL(path, root), "utf8"), path, name, lines);
}

/** The same for several parts of one page. */
export function renewParts(path: string, parts: Readonly<Record<string, readonly string[]>>): string {
  let page = readFileSync(new URL(path, root), "utf8");
  for (const [name, lines] of Object.entries(parts)) page = renewed(page, path, name, lines);
  return page;
}

function renewed(page: string, path: string, name: string, lines: readonly string[]): string {
  const [start, end] = [`<!-- ${name} -->`, `<!-- end of ${name} -->`];
  const from = page.indexOf(start);
  const to = page.indexOf(end);
  if (from < 0 || to < from) throw new Error(`${path} needs the marks ${start} and ${end}`);
  return `${page.slice(0, from)}${[start, ...lines, ""].join("\n")}${page.slice(to)}`;
}
