import { describe, expect, it } from "vitest";
import { RUNTIMES } from "../api/engine-settings.ts";
import { chooseRuntime, hostRuntimes, isRuntimeFor, isServedOnHosts, RUNTIMES_IN_ORDER } from "./registry.ts";

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
    expect(hostRuntimes()).toEqual(["llamacpp", "ollama", "generic"]);
    expect(isRuntimeFor("llamacpp", "mlx", "metal")).toBe(false);
    expect(isServedOnHosts("mlx")).toBe(true);
    expect(isServedOnHosts("ollama")).toBe(true);
  });
});
