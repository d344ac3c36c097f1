/** Pages that are partly written by hand: what is generated is between two marks. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { root } from "../project/root.ts";

/** The page with the lines between `<!-- name -->` and `<!-- end of name -->` renewed, for each name. */
export function renewParts(file: string, parts: Readonly<Record<string, readonly string[]>>): string {
  let page = readFileSync(path.join(root, file), "utf8");
  for (const [name, lines] of Object.entries(parts)) {
    const [start, end] = [`<!-- ${name} -->`, `<!-- end of ${name} -->`];
    const from = page.indexOf(start);
    const to = page.indexOf(end);
    if (from < 0 || to < from) throw new Error(`${file} needs the marks ${start} and ${end}`);
    page = `${page.slice(0, from)}${[start, ...lines, ""].join("\n")}${page.slice(to)}`;
  }
  return page;
}
