import { describe, expect, it } from "vitest";
import { processPorts } from "../../src/supervise/fixtures/run.ts";
import type { GateRoutes } from "../gate/gate-routes.ts";
import { createInstances } from "../instances/instances.ts";
import { createEngineDrivers, engineEnvironment } from "./registry.ts";

describe("the engines of an agent", () => {
  it("the engines of an agent are found by their runtime", () => {
    const instances = createInstances({
      ...processPorts(),
      stateDir: "/nowhere",
      footprintBytes: async () => undefined,
    });
    const gate = { routes: {} as GateRoutes, clock: processPorts().clock };
    const drivers = createEngineDrivers({
      env: {},
      config: { llamaServer: [] },
      instances,
      gate,
      memoryBudget: () => undefined,
    });
    expect(drivers.get("llamacpp")?.runtime).toBe("llamacpp");
    expect(drivers.get("generic")?.runtime).toBe("generic");
    expect(drivers.get("vllm")).toBeUndefined();
  });

  it("engines get the variables that they need, and none that set their options or hold secrets", () => {
    const all = {
      PATH: "/bin",
      GGML_METAL_NO_RESIDENCY: "1",
      LLAMA_ARG_CTX_SIZE: "9",
      HF_TOKEN: "x",
      TZ: undefined,
    };
    expect(engineEnvironment(all)).toEqual({ PATH: "/bin", GGML_METAL_NO_RESIDENCY: "1" });
  });
});
