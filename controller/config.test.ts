import { expect, test } from "vitest";
import { parseControllerConfig } from "./config.ts";

test("the configuration has defaults, and accepts numbers as text", () => {
  expect(parseControllerConfig({ healthPort: "0" })).toMatchObject({
    healthAddress: "127.0.0.1",
    healthPort: 0,
    hfEndpoint: "https://huggingface.co",
  });
});

test.each([
  [{ healthport: 1 }, "healthport"],
  [{ healthPort: "x" }, "healthPort"],
  [{ healthPort: 70_000 }, "healthPort"],
  [{ hfEndpoint: "ftp://x" }, "hfEndpoint"],
  [{ kubeconfig: "" }, "kubeconfig"],
  [{ benchmarks: "On" }, "benchmarks"],
  [{ benchmarkMaxAge: "30d" }, "benchmarkMaxAge"],
  [{ benchmarkMaxAge: "" }, "benchmarkMaxAge"],
  [{ benchmarkMaxAge: "10m" }, "benchmarkMaxAge"],
  [{ scoreWeights: "tps=2" }, "scoreWeights"],
  [{ scoreWeights: "speed=0.5" }, "scoreWeights"],
  [{ scoreWeights: "tps" }, "scoreWeights"],
  [{ scoreWeights: "tps=0,utilization=0,cost=0" }, "scoreWeights"],
])("configuration %j is rejected with the name of the key", (input, key) => {
  expect(() => parseControllerConfig(input)).toThrow(
    expect.objectContaining({ code: "ControllerConfigInvalid", message: expect.stringContaining(key) }),
  );
});
