import { expect, test } from "vitest";
import { type Host, hostSchema } from "../../api/host.ts";
import { hostFacts } from "./host-facts.ts";

const host = (status: object, spec = {}): Host =>
  hostSchema.parse({ metadata: { name: "mac-1" }, spec, status });

test("a host's models come with the speed that was measured there", () => {
  const source = "hf://org/model";
  const sha256 = "a".repeat(64);
  const { models } = hostFacts(
    host({ models: [{ source, sha256, tokensPerSecond: 42 }, { source, tokensPerSecond: 0 }, { source }] }),
  );
  expect(models).toEqual([{ source, sha256, tokensPerSecond: 42 }, { source }, { source }]);
});

test("a host's class comes from its chip and GPU cores, and its cost from its spec", () => {
  const info = { chip: "Apple M4 Max", gpuCores: 40 };
  expect(hostFacts(host({ info }, { cost: 2 }))).toMatchObject({ deviceClass: "apple-m4-max-40", cost: 2 });
  expect(hostFacts(host({}))).toMatchObject({ deviceClass: undefined, cost: undefined });
});
