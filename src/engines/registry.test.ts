import { describe, expect, it } from "vitest";
import { engineFields } from "../api/engine-settings.ts";
import { HOST_ENGINE_INSTALLS, RUNTIMES, RUNTIMES_BY_FORMAT } from "../api/fields/runtimes.ts";
import {
  checkGate,
  ENGINES,
  hostRuntimes,
  installHintOf,
  isGated,
  isRuntimeFor,
  isServedOnHosts,
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

  it("is what descriptions of the API say", () => {
    for (const format of ["gguf", "mlx", "ollama"] as const) {
      const [first, second] = runtimesFor(format, "metal", "chat");
      const chosen = second === undefined ? `${format}: ${first}` : `${format}: ${first}, else ${second}`;
      expect(RUNTIMES_BY_FORMAT).toContain(chosen);
    }
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
    const names = ENGINES.map((entry) => entry.runtime);
    expect(names.toSorted()).toEqual([...RUNTIMES].toSorted());
    expect(isRuntimeFor("generic", "custom", "metal")).toBe(true);
    expect(hostRuntimes()).toEqual([...Object.keys(HOST_ENGINE_INSTALLS), "generic"]);
    expect(isRuntimeFor("llamacpp", "mlx", "metal")).toBe(false);
    expect(isServedOnHosts("mlx")).toBe(true);
    expect(isServedOnHosts("ollama")).toBe(true);
  });
});

it("each setting of engines is one that some engine honors", () => {
  const all = [...Object.keys(engineFields), "speculativeDecoding", "loraAdapters"];
  const honored = new Set(ENGINES.flatMap(({ host }) => host?.settings ?? []));
  expect(all.filter((field) => !honored.has(field))).toEqual([]);
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
