/** The Secret of examples/gateway-keys is a key, and the page names all of its fields. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { gatewayKeySchema, keyLimitsSchema, keyScopeSchema } from "../../src/gateway/key.ts";
import { KEY_FIELD, readKeySecret } from "../../src/gateway/key-secret.ts";
import { root } from "./pages.ts";

const read = (...names: string[]) => readFileSync(path.join(root, ...names), "utf8");

test("the example is a valid key", () => {
  const { metadata, stringData } = parse(read("examples", "gateway-keys", "team-a.yaml"));
  const data = { [KEY_FIELD]: Buffer.from(stringData[KEY_FIELD]).toString("base64") };
  expect(readKeySecret({ metadata, data })).toMatchObject({ at: "valid", id: "team-a" });
});

test.each([
  ...Object.keys(gatewayKeySchema.shape),
  ...Object.keys(keyLimitsSchema.shape),
  ...Object.keys(keyScopeSchema.shape),
])("docs/gateway-keys.md describes %s", (field) => {
  expect(read("docs", "gateway-keys.md")).toContain(`\`${field}\``);
});
