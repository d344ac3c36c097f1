import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { errorCatalog } from "../../src/api/errors.ts";
import { generatedFiles } from "./files.ts";

const root = new URL("../../", import.meta.url);

test.for([...(await generatedFiles())])("%s is up to date (npm run generate)", async ([path, content]) => {
  expect(await readFile(new URL(path, root), "utf8")).toBe(content);
});

test("docs/errors.md has every code once, and nothing more", async () => {
  const page = await readFile(new URL("docs/errors.md", root), "utf8");
  const codes = [...page.matchAll(/^\| `([A-Za-z0-9]+)` \|/gm)].map(([, code]) => code ?? "");
  expect(codes.sort()).toEqual(Object.keys(errorCatalog).sort());
  // Every file of src/api/errors has a section with a title.
  expect(page).not.toContain("## Others");
});

test("codes are legal condition reasons, and every entry says what to do", () => {
  for (const [code, entry] of Object.entries(errorCatalog)) {
    expect(code).toMatch(/^[A-Z][A-Za-z0-9]{2,62}$/);
    expect(entry.what.length, code).toBeGreaterThan(10);
    expect(entry.do.length, code).toBeGreaterThan(5);
  }
});
