import fc from "fast-check";
import { expect, test } from "vitest";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { filterResult, priorityList, readArgs } from "./protocol.ts";

const POD = { metadata: { name: "chat-1", labels: null }, spec: { containers: null } };
const node = (name: string, more: object = {}) => ({ metadata: { name, labels: {} }, ...more });
const read = (args: unknown) => readArgs(Buffer.from(JSON.stringify(args)));

test.each<[string, object, readonly string[] | undefined]>([
  ["names", { Pod: POD, Nodes: null, NodeNames: ["a", "b"] }, ["a", "b"]],
  ["no names", { Pod: POD, Nodes: null, NodeNames: [] }, []],
  [
    "Nodes",
    { Pod: POD, Nodes: { metadata: {}, items: [node("a"), node("b")] }, NodeNames: null },
    ["a", "b"],
  ],
  ["an empty list of Go", { Pod: POD, Nodes: { metadata: {}, items: null } }, []],
  ["both, of which the names count", { Pod: POD, Nodes: { items: [node("a")] }, NodeNames: ["b"] }, ["b"]],
  ["neither", { Pod: POD, Nodes: null, NodeNames: null }, undefined],
  ["only a pod", { Pod: POD }, undefined],
])("a request with %s is read", (_, args, names) => {
  expect(read(args).candidates?.names).toEqual(names);
});

test.each<[string, string]>([
  ["nothing", ""],
  ["no JSON", "hello"],
  ["a list", "[]"],
  ["an open object", '{"Pod":{}'],
  ["text after its end", `{"Pod":${JSON.stringify(POD)}} x`],
  ["no pod", '{"NodeNames":["a"]}'],
  ["a pod of numbers", '{"Pod":7,"NodeNames":["a"]}'],
  ["names that are numbers", `{"Pod":${JSON.stringify(POD)},"NodeNames":[1]}`],
  ["names that are an object", `{"Pod":${JSON.stringify(POD)},"NodeNames":{}}`],
  ["a Node without a name", `{"Pod":${JSON.stringify(POD)},"Nodes":{"items":[{"metadata":{}}]}}`],
  ["a Node that is a number", `{"Pod":${JSON.stringify(POD)},"Nodes":{"items":[1]}}`],
  ["Nodes that are a list", `{"Pod":${JSON.stringify(POD)},"Nodes":[]}`],
  ["keys in lower case", `{"pod":${JSON.stringify(POD)},"nodenames":["a"]}`],
])("a request with %s is ExtenderRequestInvalid", (_, text) => {
  expect(() => readArgs(Buffer.from(text))).toThrow(MetalbridgeError);
});

/** JSON texts with white space, escapes and nesting; Nodes hold anything. */
const args = fc.record({
  Pod: fc.constant(POD),
  Nodes: fc.record({
    items: fc.array(
      fc.tuple(fc.string({ unit: "grapheme" }), fc.jsonValue()).map(([name, status]) => ({
        status,
        metadata: { annotations: { metadata: '{"name":"other"}' }, name },
      })),
    ),
  }),
});

test("any Nodes are read and sent back unchanged, but those that failed", () => {
  fc.assert(
    fc.property(args, fc.boolean(), fc.infiniteStream(fc.boolean()), (request, isIndented, fails) => {
      const text = JSON.stringify(request, undefined, isIndented ? 2 : undefined);
      const { candidates = { names: [] } } = readArgs(Buffer.from(text));
      const { items } = request.Nodes;
      expect(candidates.names).toEqual(items.map(({ metadata }) => metadata.name));
      const failed = new Map(candidates.names.filter(() => fails.next().value).map((name) => [name, "why"]));
      const kept = items.filter(({ metadata }) => !failed.has(metadata.name));
      expect(JSON.parse(filterResult(candidates, failed).toString())).toEqual({
        Nodes: { items: JSON.parse(JSON.stringify(kept)) },
        FailedNodes: {},
        FailedAndUnresolvableNodes: Object.fromEntries(failed),
        Error: "",
      });
    }),
  );
});

test("any text is read or refused with a code", () => {
  const valid = JSON.stringify({ Pod: POD, Nodes: { items: [node("a"), node("b")] }, NodeNames: ["a"] });
  const damaged = fc
    .tuple(fc.nat(valid.length), fc.nat(valid.length), fc.string())
    .map(([from, to, text]) => valid.slice(0, from) + text + valid.slice(to));
  fc.assert(
    fc.property(fc.oneof(damaged, fc.string(), fc.json()), (text) => {
      try {
        readArgs(Buffer.from(text));
      } catch (error) {
        expect(error).toMatchObject({ code: "ExtenderRequestInvalid" });
      }
    }),
  );
});

test("names are answered by names, and every node has a score", () => {
  expect(
    JSON.parse(filterResult({ names: ["a", "b"] }, new Map([["a", "too small"]])).toString()),
  ).toMatchObject({
    NodeNames: ["b"],
    FailedAndUnresolvableNodes: { a: "too small" },
  });
  expect(JSON.parse(priorityList(["a", "b"], [10, 3]).toString())).toEqual([
    { Host: "a", Score: 10 },
    { Host: "b", Score: 3 },
  ]);
});
