import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { manifestYaml } from "./manifest-yaml.ts";

test("what YAML 1.1 would read as a boolean or a number has quotes", () => {
  const objects = [
    { metadata: { name: "yes" }, spec: { placement: { on: "Auto" } } },
    { metadata: { name: "1_000", annotations: { "example.com/mesh": "off" } } },
  ];
  const text = manifestYaml(objects);
  expect(text).toContain('    "on": Auto\n');
  expect(parseAllDocuments(text, { version: "1.1" }).map((document) => document.toJS())).toEqual(objects);
});
