import fc from "fast-check";
import { expect, test } from "vitest";
import { nameModel, narrowList, sameModel, withoutLoadOptions } from "./body.ts";

const naming = {
  keys: ["model"],
  accepts: (name: string) => name === "chat",
  model: "hf.co/org/model:Q4",
  overrides: { keep_alive: () => "-1", options: withoutLoadOptions },
};

function named(body: string, changes: Partial<typeof naming> = {}): string {
  const result = nameModel(Buffer.from(body), { ...naming, ...changes });
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

test("a body of 64 MiB with one long string is scanned in moments", () => {
  const body = `{"image":"${"A".repeat(64 * 1024 ** 2)}","model":"chat"}`;
  const bytes = Buffer.from(body);
  // CPU time: a busy machine does not change it.
  const before = process.cpuUsage();
  nameModel(bytes, naming);
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1_000).toBeLessThan(2_000);
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
  expect(narrowList(Buffer.from("{}"), "a", "chat")).toBeUndefined();
  expect(narrowList(Buffer.from('{"data":[null,7]}'), "a", "chat")).toBe('{"data":[]}');
});
