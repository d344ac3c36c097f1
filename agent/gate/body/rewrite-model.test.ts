import fc from "fast-check";
import { expect, test } from "vitest";
import { BodyBuffer } from "./body-buffer.ts";
import { narrowList, sameModel } from "./lists.ts";
import { MAX_MEMBERS } from "./members.ts";
import { rewriteModel, scannerFor, withoutLoadOptions } from "./rewrite-model.ts";

const naming = {
  keys: ["model"],
  accepts: (name: string) => name === "chat",
  model: "hf.co/org/model:Q4",
  overrides: { keep_alive: () => "-1", options: withoutLoadOptions },
};

/** The body comes in pieces that end at these places. */
function named(body: string, cuts: readonly number[] = []): string {
  const bytes = Buffer.from(body);
  const held = new BodyBuffer();
  const scanner = scannerFor(naming);
  const ends = [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
  for (const [index, end] of ends.entries()) {
    const piece = bytes.subarray(ends[index - 1] ?? 0, end);
    held.append(piece);
    scanner.push(piece);
  }
  const result = rewriteModel(held, scanner, naming);
  return "reason" in result ? `${result.status} ${result.message}` : Buffer.concat(result).toString("utf8");
}

test("the daemon's model replaces the service's name, and nothing else changes, digits and spaces included", () => {
  expect(named('{ "a": 1.00000000000000000001, "model" : "chat" ,"b":1e400,"c":"\\u00e9é" }')).toBe(
    '{ "a": 1.00000000000000000001, "model" : "hf.co/org/model:Q4" ,"b":1e400,"c":"\\u00e9é" }',
  );
});

test.each([
  ["{}", '{"model":"hf.co/org/model:Q4"}'],
  [' {\n"n":12345678901234567890}\n', ' {"model":"hf.co/org/model:Q4",\n"n":12345678901234567890}\n'],
  ['{"model":null}', '{"model":"hf.co/org/model:Q4"}'],
  ['{"model":""}', '{"model":"hf.co/org/model:Q4"}'],
  ['{"mod\\u0065l":"chat"}', '{"mod\\u0065l":"hf.co/org/model:Q4"}'],
  ['{"m":{"model":"x"},"model":"chat"}', '{"m":{"model":"x"},"model":"hf.co/org/model:Q4"}'],
  ['{"keep_alive":0,"model":"chat"}', '{"keep_alive":-1,"model":"hf.co/org/model:Q4"}'],
  [
    '{"model":"chat","options":{"num_ctx":99,"Num_Gpu":0,"seed":7}}',
    '{"model":"hf.co/org/model:Q4","options":{"seed":7}}',
  ],
  ['{"options":{"seed":1.50},"model":"chat"}', '{"options":{"seed":1.50},"model":"hf.co/org/model:Q4"}'],
  ['{"p":"\\"}]\\\\","model":"chat"}', '{"p":"\\"}]\\\\","model":"hf.co/org/model:Q4"}'],
])("names the model in %s", (body, expected) => expect(named(body)).toBe(expected));

test.each([
  '{"model":"other"}',
  '{"model":"chat","model":"other"}',
  '{"model":"chat","Model":"other"}',
  '{"model":"chat","mod\\u0065l":"other"}',
  '{"model":["chat"]}',
  '{"model":7}',
  '{"MODEL":"chat"}',
  '{"optionſ":{"num_ctx":2048}}',
  '{"option\\u017f":{"num_ctx":2048}}',
])("refuses %s, which may mean another model", (body) => expect(named(body)).toMatch(/^40[04] /));

test.each([
  "",
  "null",
  "[]",
  '"model"',
  "{",
  '{"a"}',
  '{"a":}',
  '{"a":1,}',
  "{'model':'chat'}",
  "{model:1}",
  '{"a":1} {"model":"other"}',
  '{"a":[1}',
  '{"a":[1,2}',
  '{"a":"unfinished}',
  '{"a":tru}',
  '{"a":01}',
  '{"a":1 /* "*/ }',
  "\ufeff{}",
  `{"a":${"[".repeat(600)}${"]".repeat(600)}}`,
])("refuses %s, which is not a JSON object", (body) => expect(named(body)).toMatch(/^400 the body is not/));

test("whatever object a client sends, the daemon reads the same one with its own model", () => {
  const json = fc.dictionary(fc.string(), fc.jsonValue()).filter((value) => {
    const lower = Object.keys(value).map((key) => key.toLowerCase());
    return !lower.includes("model") && !lower.includes("keep_alive");
  });
  fc.assert(
    fc.property(json, fc.boolean(), fc.boolean(), (value, hasModel, isPretty) => {
      const sent = hasModel ? { ...value, model: "chat" } : value;
      const text = JSON.stringify(sent, undefined, isPretty ? 2 : 0);
      expect(JSON.parse(named(text))).toEqual(JSON.parse(JSON.stringify({ ...value, model: naming.model })));
    }),
  );
});

test("text that is no JSON never passes as something that a strict parser reads with another model", () => {
  const pieces = fc.constantFrom(
    '"model"',
    '"chat"',
    '"other"',
    ":",
    ",",
    "{",
    "}",
    "[",
    "]",
    "1",
    '"a"',
    "\\",
    '"',
    " ",
  );
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 14 }), (parts) => {
      const result = named(`{${parts.join("")}}`);
      if (result.startsWith("40")) return;
      try {
        expect(JSON.parse(result).model).toBe(naming.model);
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
      }
    }),
    { numRuns: 2_000 },
  );
});

const text = fc.oneof(
  fc.json(),
  fc
    .array(
      fc.constantFrom(
        '"model"',
        '"chat"',
        '"other"',
        ":",
        ",",
        "{",
        "}",
        "[",
        "]",
        "1",
        '"é\\"',
        "\\",
        '"',
        " ",
      ),
      {
        maxLength: 20,
      },
    )
    .map((parts) => `{${parts.join("")}}`),
);

test("the pieces in which a body comes make no difference", () => {
  fc.assert(
    fc.property(text, fc.array(fc.nat()), (body, cuts) => {
      const everywhere = Array.from(Buffer.from(body), (_, index) => index);
      expect(named(body, cuts)).toBe(named(body));
      expect(named(body, everywhere)).toBe(named(body));
    }),
  );
});

test.each([
  ["members", `{${Array.from({ length: MAX_MEMBERS }, (_, n) => `"${n}":1`).join()}`, ',"more":1}'],
  ["bytes of a name", `{"${"n".repeat(1_023)}`, '":1}'],
  ["digits", `{"n":${"1".repeat(1_024)}`, "1}"],
  ["levels", `{"n":${"[".repeat(500)}`, `[1]${"]".repeat(500)}}`],
])(
  "too many %s are refused at the first one, and nothing waits for the end of the body",
  (_, within, more) => {
    const scanner = scannerFor(naming);
    expect(scanner.push(Buffer.from(within))).toBeUndefined();
    expect(scanner.push(Buffer.from(more.slice(0, 8)))).toMatch(/more than|longer than|deeper than/);
    expect(scanner.members).toEqual([]);
  },
);

test("each byte is scanned when it comes: of other members nothing is kept, and the end finds nothing new", () => {
  const scanner = scannerFor(naming);
  const piece = Buffer.from(`${'"a":[1,{"b":"\\""}],'.repeat(10)}`);
  scanner.push(Buffer.from("{"));
  for (let count = 10; count < MAX_MEMBERS; count += 10) {
    expect(scanner.push(piece)).toBeUndefined();
    expect(scanner.count).toBe(count);
  }
  expect(scanner.members).toEqual([]);
  scanner.push(Buffer.from('"model":"chat"}'));
  expect(scanner.members).toMatchObject([{ key: "model" }]);
  expect(scanner.end()).toBeUndefined();
});

test.each(["model", "options"])(
  "a value of %s that is read is refused where it is larger than 64 KiB",
  (key) => {
    expect(named(`{"${key}":"${"x".repeat(64 * 1024)}"}`)).toMatch(/^400 the member .* is larger/);
  },
);

test("pieces of one byte are copied together: none keeps the read that it came with", () => {
  const held = new BodyBuffer();
  const piece = Buffer.from("x");
  let allocated = 0;
  for (let index = 0; index < 200_000; index += 1) {
    allocated += held.bytesToAllocate(1);
    held.append(piece);
  }
  expect(held.length).toBe(200_000);
  expect(allocated).toBeLessThan(2 * 200_000);
  expect(held.slice(0, held.length).length).toBeLessThan(10);
  expect(Buffer.concat(held.slice(0, held.length)).equals(Buffer.alloc(200_000, "x"))).toBe(true);
});

test("a slice of what is held is what was appended, whatever the pieces", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 9_000 })), fc.nat(), fc.nat(), (pieces, a, b) => {
      const held = new BodyBuffer();
      for (const piece of pieces) held.append(Buffer.from(piece));
      const whole = Buffer.concat(pieces);
      const [from = 0, to = 0] = [a % (whole.length + 1), b % (whole.length + 1)].sort((x, y) => x - y);
      expect(Buffer.concat(held.slice(from, to)).equals(whole.subarray(from, to))).toBe(true);
    }),
  );
});

test("a name without a tag means the latest, as in Ollama", () => {
  expect(sameModel("chat:latest", "chat")).toBe(true);
  expect(sameModel("chat", "chat:latest")).toBe(true);
  expect(sameModel("hf.co:443/a/b", "hf.co:443/a/b:latest")).toBe(true);
  expect(sameModel("chat:8b", "chat")).toBe(false);
  expect(sameModel("chat-two", "chat")).toBe(false);
  expect(sameModel(undefined, "chat")).toBe(false);
});

test("a list is narrowed to the one model, under the service's name", () => {
  const list = { object: "list", data: [{ id: "a", aliases: ["x"], meta: { n: 1 } }, { id: "b" }] };
  expect(JSON.parse(narrowList(Buffer.from(JSON.stringify(list)), "a", "chat") ?? "")).toEqual({
    object: "list",
    data: [{ id: "chat", meta: { n: 1 } }],
  });
  const tags = {
    models: [
      { name: "a:latest", model: "a:latest", size: 3 },
      { name: "ab:latest", model: "ab:latest" },
    ],
  };
  expect(JSON.parse(narrowList(Buffer.from(JSON.stringify(tags)), "a", "chat") ?? "")).toEqual({
    models: [{ name: "chat", model: "chat", size: 3 }],
  });
  expect(narrowList(Buffer.from("oops"), "a", "chat")).toBeUndefined();
  const deep = "[".repeat(100_000) + "]".repeat(100_000);
  expect(narrowList(Buffer.from(`{"data":[],"x":${deep}}`), "a", "chat")).toBeUndefined();
  expect(narrowList(Buffer.from("{}"), "a", "chat")).toBeUndefined();
  expect(narrowList(Buffer.from('{"data":[null,7]}'), "a", "chat")).toBe('{"data":[]}');
});
