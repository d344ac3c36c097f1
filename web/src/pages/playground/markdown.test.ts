import { expect, test } from "vitest";
import { cpuMilliseconds } from "../../testing/cpu-milliseconds.ts";
import { parseMarkdown, parseSpans } from "./markdown.ts";

test("paragraphs, headings, lists and code become blocks", () => {
  const text =
    "Hello\nthere\n\n## A title\n- one\n  - two\n\n1. first\n   more\n```ts\nconst a = 1;\n\n```\nend";
  expect(parseMarkdown(text)).toEqual([
    { kind: "paragraph", text: "Hello\nthere" },
    { kind: "heading", text: "A title" },
    {
      kind: "list",
      isOrdered: false,
      items: [
        { depth: 0, marker: "-", text: "one" },
        { depth: 1, marker: "-", text: "two" },
        { depth: 0, marker: "1.", text: "first\nmore" },
      ],
    },
    { kind: "code", language: "ts", text: "const a = 1;\n" },
    { kind: "paragraph", text: "end" },
  ]);
});

test("an answer that is still written shows its open code block", () => {
  expect(parseMarkdown("```py\nprint(")).toEqual([{ kind: "code", language: "py", text: "print(" }]);
  expect(parseMarkdown("")).toEqual([]);
});

test("marks inside of text become spans, and lonely ones stay text", () => {
  expect(parseSpans("a **b** `c*d` *e* 2 * 3 * 4 **open")).toEqual([
    { kind: "text", text: "a " },
    { kind: "bold", text: "b" },
    { kind: "text", text: " " },
    { kind: "code", text: "c*d" },
    { kind: "text", text: " " },
    { kind: "italic", text: "e" },
    { kind: "text", text: " 2 * 3 * 4 **open" },
  ]);
});

test("markup of HTML is text", () => {
  const markup = "<img src=x onerror=alert(1)>";
  expect(parseMarkdown(markup)).toEqual([{ kind: "paragraph", text: markup }]);
  expect(parseSpans(markup)).toEqual([{ kind: "text", text: markup }]);
});

test("a long hostile text is parsed in little CPU time", () => {
  const taken = cpuMilliseconds(() => {
    for (const part of ["*", "`", "**a", "- ", "```\n"]) {
      for (const block of parseMarkdown(part.repeat(5_000))) if ("text" in block) parseSpans(block.text);
    }
  });
  expect(taken).toBeLessThan(2_000);
});
