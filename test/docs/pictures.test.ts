/** Pictures of pages: each in both themes, none without a page, and small. */
import { readdirSync, statSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { allPages, root } from "./pages.ts";

const FOLDER = "docs/images/console";
const MAX_BYTES = 80_000;
const files = readdirSync(path.join(root, FOLDER)).map((name) => `${FOLDER}/${name}`);

test("pages show all pictures of the console, each in both themes", () => {
  const shown = allPages().flatMap((page) =>
    [...page.prose.matchAll(/(?:src|srcset)="([^"]+)"/g)].map(([, at = ""]) =>
      path.posix.join(path.posix.dirname(page.path), at),
    ),
  );
  // The README shows one of them, too.
  const pictures = [...new Set(shown.filter((at) => at.startsWith(FOLDER)))].sort();
  expect(pictures).toEqual([...files].sort());
  const names = (theme: string) =>
    pictures.filter((at) => at.endsWith(theme)).map((at) => at.replace(theme, ""));
  expect(names("-dark.png")).toEqual(names("-light.png"));
});

test.for(files)("%s is small", (file) => {
  expect(statSync(path.join(root, file)).size).toBeLessThan(MAX_BYTES);
});
