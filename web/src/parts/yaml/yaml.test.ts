import { expect, test } from "vitest";
import { ConsoleError } from "../../api/request.ts";
import { keysOf, parseYaml, printYaml } from "./documents.ts";
import { allFieldErrors, fieldErrorsOf } from "./field-errors.ts";

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
  const causes = [{ field: "spec.replicas", message: "must be at most 5" }];
  expect(fieldErrorsOf(new ConsoleError("Invalid", "x", { causes }))).toEqual(causes);
  const strict = new ConsoleError(
    "BadRequest",
    'strict decoding error: unknown field "spec.contxtSize", unknown field "spec.x"',
  );
  expect(fieldErrorsOf(strict).map(({ field }) => field)).toEqual(["spec.contxtSize", "spec.x"]);
  expect(fieldErrorsOf(new Error("no"))).toEqual([]);
});

test.each([
  [
    'Invalid value: "string": spec.replicas in body must be of type integer: "string"',
    "Write a whole number here.",
  ],
  [
    'Unsupported value: "hgih": supported values: "low", "high"',
    '"hgih" is not allowed here. Use one of "low", "high".',
  ],
  ["Required value", "This field is missing."],
  [
    "Invalid value: 0: spec.contextSize in body should be greater than or equal to 128",
    "0: should be greater than or equal to 128",
  ],
  ['Invalid value: "object": set one of both', "set one of both"],
])("%j is said in plain words", (message, plain) => {
  const error = new ConsoleError("Invalid", "x", { causes: [{ field: "f", message }] });
  expect(fieldErrorsOf(error)).toEqual([{ field: "f", message: plain }]);
});

test("unknown fields do not hide the values that are refused as well", async () => {
  const strict = new ConsoleError("BadRequest", 'strict decoding error: unknown field "spec.x"');
  const causes = [{ field: "spec.replicas", message: "Required value" }];
  const both = await allFieldErrors(strict, () =>
    Promise.reject(new ConsoleError("Invalid", "x", { causes })),
  );
  expect(both.map(({ field }) => field)).toEqual(["spec.x", "spec.replicas"]);
  expect(await allFieldErrors(strict, async () => undefined)).toHaveLength(1);
});
