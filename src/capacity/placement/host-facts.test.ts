import { expect, test } from "vitest";
import { type Host, hostSchema } from "../../api/host.ts";
import { hostFacts } from "./host-facts.ts";

const host = (status: object): Host => hostSchema.parse({ metadata: { name: "mac-1" }, status });

test("a host's models come with the speed that was measured there", () => {
  const source = "hf://org/model";
  const sha256 = "a".repeat(64);
  const { models } = hostFacts(
    host({ models: [{ source, sha256, tokensPerSecond: 42 }, { source, tokensPerSecond: 0 }, { source }] }),
  );
  expect(models).toEqual([{ source, sha256, tokensPerSecond: 42 }, { source }, { source }]);
});
