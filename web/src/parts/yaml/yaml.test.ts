import { expect, test } from "vitest";
import { ConsoleError } from "../../api/request.ts";
import { keysOf, parseYaml, printYaml } from "./documents.ts";
import { fieldErrorsOf } from "./field-errors.ts";

const TEXT = `# a comment
metadata:
  name: chat
  labels:
    app.kubernetes.io/name: chat
spec:
  replicas: two
  placement:
    hosts:
      - mac-1
      - mac-2
---
spec:
  source: hf://a/b
`;

test.each([
  ["spec.replicas", 7],
  ["spec.placement.hosts[1]", 11],
  ["spec.placement", 8],
  ["spec.placement.spread", 8],
  ["metadata.labels[app.kubernetes.io/name]", 5],
  ["status.nothing", 2],
  ["", 2],
])("field %s is on line %i, or its parent is", (field, line) => {
  const parsed = parseYaml(TEXT);
  expect(parsed.at === "parsed" && parsed.documents[0]?.lineOf(field)).toBe(line);
});

test("lines of the second document count from the start of the text", () => {
  const parsed = parseYaml(TEXT);
  expect(parsed.at === "parsed" && parsed.documents[1]?.lineOf("spec.source")).toBe(14);
});

test.each([
  ["a: [1,\n", 2],
  ["a: 1\na: 2\n", 2],
  ["- a list\n", 1],
  ["just text", 1],
  ["", 1],
])("%j is invalid on line %i", (text, line) => {
  const parsed = parseYaml(text);
  expect(parsed.at === "invalid" && parsed.faults[0]?.line).toBe(line);
});

test("aliases that explode are refused instead of filling the memory", () => {
  const levels = Array.from(
    { length: 9 },
    (_, n) => `l${n + 1}: &l${n + 1} [${Array(9).fill(`*l${n}`).join(",")}]`,
  );
  expect(parseYaml(`l0: &l0 [x]\n${levels.join("\n")}\n`).at).toBe("invalid");
});

test("what is printed is parsed to the same objects", () => {
  const objects = [{ a: "yes", on: "true", list: [1, { b: null }] }, { text: "two\nlines" }];
  const parsed = parseYaml(printYaml(...objects));
  expect(parsed.at === "parsed" && parsed.documents.map(({ value }) => value)).toEqual(objects);
});

test("keys of a field", () => {
  expect(keysOf('spec.a[0].b["x.y/z"].c')).toEqual(["spec", "a", 0, "b", "x.y/z", "c"]);
});

test("refused fields come from causes, or from the message of strict validation", () => {
  const causes = [{ field: "spec.replicas", message: "must be a number" }];
  expect(fieldErrorsOf(new ConsoleError("Invalid", "x", { causes }))).toEqual(causes);
  const strict = new ConsoleError(
    "BadRequest",
    'strict decoding error: unknown field "spec.contxtSize", unknown field "spec.x"',
  );
  expect(fieldErrorsOf(strict).map(({ field }) => field)).toEqual(["spec.contxtSize", "spec.x"]);
  expect(fieldErrorsOf(new Error("no"))).toEqual([]);
});
