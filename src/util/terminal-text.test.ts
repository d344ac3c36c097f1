import fc from "fast-check";
import { expect, test } from "vitest";
import { terminalText } from "./terminal-text.ts";

const OBEYED = /[\p{Cc}\u202a-\u202e\u2066-\u2069]/u;
const COLORS = new RegExp(`${"\u001b"}\\[(0|1|2|22|3[1-79])m`, "g");
/** What terminals obey, with plain text between. */
const hostile = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        "\u001b[2J",
        "\u001b]52;c;AAAA\u0007",
        "\u001b[8m",
        "\u009b31m",
        "\u202e",
        "\u2066",
        "\r",
        "\b",
        "\u001b[1",
        "m",
      ),
      fc.string({ unit: "binary" }),
    ),
  )
  .map((parts) => parts.join(""));

test("whatever is printed, a terminal obeys nothing of it but line feeds, tabs and our own colors", () => {
  fc.assert(
    fc.property(hostile, (text) => {
      expect(
        terminalText(text)
          .replaceAll(COLORS, "")
          .replaceAll(/[\n\t]/g, ""),
      ).not.toMatch(OBEYED);
    }),
  );
});

test("in pieces it is as safe as in one", () => {
  fc.assert(
    fc.property(fc.array(hostile), (pieces) => {
      const text = pieces.map(terminalText).join("");
      expect(text.replaceAll(COLORS, "").replaceAll(/[\n\t]/g, "")).not.toMatch(OBEYED);
    }),
  );
});

test("JSON stays the same JSON", () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: "binary" }), hostile, (value, text) => {
      const object = { value, text };
      for (const indent of [undefined, 2])
        expect(JSON.parse(terminalText(JSON.stringify(object, undefined, indent)))).toEqual(
          JSON.parse(JSON.stringify(object)),
        );
    }),
  );
});

test.for([
  ["\u001b[32m✓\u001b[0m done\n\tnext", "\u001b[32m✓\u001b[0m done\n\tnext"],
  ["évil \u202egnp.exe", "évil \\u202egnp.exe"],
  ["\u001b[2Jgone", "\\u001b[2Jgone"],
  ["over\rwritten", "over\\u000dwritten"],
  ["日本語 עברית 🙂", "日本語 עברית 🙂"],
] as const)("%j is printed as %j", ([text, shown]) => {
  expect(terminalText(text)).toBe(shown);
});
