import { describe, expect, it } from "vitest";
import type { GateRoutes } from "../gate/gate-routes.ts";
import { createInstances } from "../instances/instances.ts";
import { processPorts } from "../instances/process/fixtures/run.ts";
import { createEngineDrivers, engineEnvironment } from "./registry.ts";

describe("the engines of an agent", () => {
  it("are found by the runtime they serve", () => {
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

  it("get what they need of the agent's environment and nothing that sets their options or holds secrets", () => {
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
