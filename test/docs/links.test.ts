/** Links between pages lead somewhere, and every folder says what it is. */
import { existsSync, readdirSync, statSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { allPages, anchorsOf, root } from "./pages.ts";

const pages = allPages();
const byPath = new Map(pages.map((page) => [page.path, page]));

test("there are pages to look at", () => {
  expect(byPath.has("README.md")).toBe(true);
  expect(pages.length).toBeGreaterThan(15);
});

test.for(pages)("$path: every relative link and anchor resolves", (page) => {
  const prose = page.prose.replaceAll(/`[^`\n]*`/g, "");
  const broken: string[] = [];
  for (const [, target = ""] of prose.matchAll(/\]\(([^)\s]+)[^)]*\)/g)) {
    if (/^[a-z]+:/.test(target)) continue;
    const [file = "", anchor] = target.split("#");
    const resolved =
      file === "" ? page.path : path.posix.normalize(path.posix.join(path.posix.dirname(page.path), file));
    const to = byPath.get(resolved);
    if (!existsSync(path.join(root, resolved))) broken.push(target);
    else if (anchor !== undefined && (to === undefined || !anchorsOf(to).has(anchor))) broken.push(target);
  }
  expect(broken).toEqual([]);
});

test("every top folder has a README", () => {
  // What commands write: node_modules, dist, dist.image, release.
  const isOutput = /^(node_modules|dist|dist\..*|release)$/;
  const folders = readdirSync(root).filter(
    (name) => !name.startsWith(".") && !isOutput.test(name) && statSync(path.join(root, name)).isDirectory(),
  );
  expect(folders.filter((name) => !byPath.has(`${name}/README.md`))).toEqual([]);
});

test("every decision is numbered once and has the three parts", () => {
  const decisions = pages.filter(({ path: file }) => /^docs\/decisions\/\d{4}-[a-z0-9-]+\.md$/.test(file));
  const numbers = decisions.map(({ path: file }) => file.slice(15, 19));
  expect(numbers).toEqual(decisions.map((_, index) => String(index + 1).padStart(4, "0")));
  for (const { path: file, text } of decisions) {
    for (const part of ["Context", "Decision", "Consequences"]) expect(text, file).toContain(`**${part}.**`);
    expect(text, file).toContain(`# ${file.slice(15, 19)} `);
  }
});
