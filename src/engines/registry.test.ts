import { describe, expect, it } from "vitest";
import { engineFields, RUNTIMES } from "../api/engine-settings.ts";
import { LLAMACPP_SETTINGS } from "./llamacpp/settings.ts";
import {
  checkGate,
  hostRuntimes,
  installHintOf,
  isGated,
  isRuntimeFor,
  isServedOnHosts,
  RUNTIMES_IN_ORDER,
  requiredRuntimeName,
  runtimesFor,
} from "./registry.ts";

describe("what may serve a model without spec.runtime", () => {
  it.each([
    ["gguf", "metal", "chat", ["llamacpp", "ollama"]],
    ["gguf", "metal", "rerank", ["llamacpp"]],
    ["gguf", "vulkan", "chat", ["llamacpp"]],
    ["mlx", "metal", "chat", ["omlx", "generic"]],
    ["ollama", "metal", "embedding", ["ollama"]],
    ["safetensors", "cuda", "chat", ["vllm", "sglang", "tgi"]],
    ["safetensors", "metal", "chat", []],
    ["custom", "metal", "chat", []],
  ] as const)("of %s on %s for %s is, in order, %j", (format, accelerator, mode, runtimes) => {
    expect(runtimesFor(format, accelerator, mode).slice(0, 3)).toEqual(runtimes);
  });

  it("says how a host gets it, and a program under the name by which hosts report it", () => {
    const program = { command: ["mlx_lm.server", "{{port}}"], env: [], liveness: {} };
    const needed = requiredRuntimeName({ runtime: "generic", engine: { mode: "chat", program } });
    expect(needed).toBe("mlx_lm.server");
    expect(installHintOf(needed)).toMatch(/^pip install mlx-lm/);
    expect(requiredRuntimeName({ runtime: "generic", engine: { mode: "chat" } })).toBe("generic");
    for (const runtime of hostRuntimes()) expect(installHintOf(runtime)).toMatch(/./);
  });

  it("has an entry for every value of the enum; generic serves anything that it is asked for by name", () => {
    const names = RUNTIMES_IN_ORDER.map((entry) => entry.runtime);
    expect(names.toSorted()).toEqual([...RUNTIMES].toSorted());
    expect(isRuntimeFor("generic", "custom", "metal")).toBe(true);
    expect(hostRuntimes()).toEqual(["llamacpp", "omlx", "ollama", "generic"]);
    expect(isRuntimeFor("llamacpp", "mlx", "metal")).toBe(false);
    expect(isServedOnHosts("mlx")).toBe(true);
    expect(isServedOnHosts("ollama")).toBe(true);
  });
});

it("each setting of engines is llama-server's or another engine's", () => {
  // A new field is one of them by decision, never by being there.
  const others = ["turboQuantBits", "pagedSSDCacheDir", "hotCacheMaxSize", "pagedSSDCacheMaxSize"];
  const all = [...Object.keys(engineFields), "speculativeDecoding", "loraAdapters"];
  expect([...LLAMACPP_SETTINGS, ...others].sort()).toEqual(all.sort());
  for (const { hostSettings, pod } of RUNTIMES_IN_ORDER.filter(({ runtime }) => runtime === "llamacpp"))
    expect([hostSettings, pod?.settings]).toEqual([LLAMACPP_SETTINGS, LLAMACPP_SETTINGS]);
});

const auth = { secretName: "keys", key: "apiKey" };
const tls = { secretName: "cert" };

describe("the gate", () => {
  it.each([
    ["llamacpp", {}, false],
    ["llamacpp", { auth }, true],
    ["llamacpp", { auth, gate: "Never" }, false],
    ["llamacpp", { tls }, true],
    ["generic", {}, false],
    ["generic", { auth }, true],
    ["generic", { gate: "Always" }, true],
    ["ollama", {}, true],
  ] as const)("is before %s with %j: %s", (runtime, wish, expected) => {
    expect(isGated({ runtime, ...wish })).toBe(expected);
    checkGate({ runtime, ...wish });
  });

  it.each([
    ["ollama", {}, "many services share one server"],
    ["omlx", {}, "many services share one server"],
    ["generic", { auth }, "cannot check API keys"],
  ] as const)("cannot be left out before %s with %j", (runtime, wish, says) => {
    const refused = () => checkGate({ runtime, gate: "Never", ...wish });
    expect(refused).toThrow(expect.objectContaining({ code: "GateNeeded" }));
    expect(refused).toThrow(says);
  });
});
