/** What the pages mark as unverified has a step of `metalbridge selftest`, and is in the table of docs/selftest.md. */
import { expect, test } from "vitest";
import { allSteps } from "../../cli/selftest/table.ts";
import { allPages } from "./pages.ts";

const pages = allPages().filter(({ path }) => /^(README|docs\/[^/]+)\.md$/.test(path));
const MARK = /unverified: \[selftest\]\(selftest\.md\) `([a-z-]+)`/g;
/** How a page says that something was not run. */
const NOT_RUN = /(not|never)( yet)?( been)? (run|tried|measured) on (a Mac|one)|guess until/i;

const marks = pages.flatMap(({ path, text }) =>
  [...text.matchAll(MARK)].map(([, step]) => ({ page: path.replace("docs/", ""), step })),
);

test("every fact that is marked as unverified has a step, and a row in the table", () => {
  const names = new Set(allSteps().map(({ name }) => name));
  const table = pages.find(({ path }) => path === "docs/selftest.md")?.text ?? "";
  const rows = [...table.matchAll(/^\| .* \| \[(\S+)\]\(\S+\) \| `([a-z-]+)` \|$/gm)];
  expect(marks.filter(({ step }) => !names.has(step ?? ""))).toEqual([]);
  const listed = rows.map(([, page, step]) => `${page} ${step}`).sort();
  expect(listed).toEqual([...new Set(marks.map(({ page, step }) => `${page} ${step}`))].sort());
});

test("a page that says that something was not run on a Mac names the step that checks it", () => {
  const unmarked = pages
    .filter(({ path }) => path !== "docs/selftest.md")
    .flatMap(({ path, text }) =>
      text
        .split("\n")
        .filter((line) => NOT_RUN.test(line) && !/unverified: /.test(line))
        .map((line) => `${path}: ${line.slice(0, 100)}`),
    );
  expect(unmarked).toEqual([]);
});
