import { describe, expect, it } from "vitest";
import { RUNTIMES } from "../api/engine-settings.ts";
import {
  checkGate,
  chooseRuntime,
  hostRuntimes,
  isGated,
  isRuntimeFor,
  isServedOnHosts,
  RUNTIMES_IN_ORDER,
} from "./registry.ts";

describe("the runtime", () => {
  it.each([
    ["gguf", "metal", "llamacpp"],
    ["gguf", "cpu", "llamacpp"],
    ["mlx", "metal", "omlx"],
    ["mlx", "cuda", undefined],
    ["ollama", "metal", "ollama"],
    ["safetensors", "cuda", "vllm"],
    ["safetensors", "metal", undefined],
    ["custom", "metal", undefined],
  ] as const)("of %s on %s is %s", (format, accelerator, runtime) => {
    expect(chooseRuntime(format, accelerator)).toBe(runtime);
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
