import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { hostSchema } from "../../../src/api/host.ts";
import { readCatalog } from "../../catalog/record.ts";
import { factsOfHost } from "./host-facts.ts";
import { createLlmfitRest } from "./rest.ts";

const { records } = readCatalog(readFileSync("catalog/models.jsonl", "utf8"));

test("installed models are looked up by name once, no matter how often they are requested", () => {
  let lookups = 0;
  const name = {
    slice: () => {
      lookups += 1;
      return "qwen2.5-7b-instruct";
    },
  } as unknown as string;
  const host = factsOfHost(hostSchema.parse({ metadata: { name: "mini-1" }, spec: { addresses: [] } }));
  const facts = { ...host, installed: [{ name, runtime: "ollama" }] };
  const rest = createLlmfitRest(records);
  const request = { method: "GET", url: "/api/v1/models", isLocal: true, contentType: "", body: "" };
  expect(rest(request, facts, 0)).toEqual(rest(request, facts, 0));
  expect(lookups).toBe(1);
});
