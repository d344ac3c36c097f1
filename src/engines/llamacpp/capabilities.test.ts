/** What the help of a build says that it can do. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { findFlag, parseCapabilities } from "./capabilities.ts";
import { PINNED as current } from "./pinned.ts";

const read = (name: string) => readFileSync(new URL(`./fixtures/${name}.txt`, import.meta.url), "utf8");
const older = parseCapabilities(read("help-b5000-style"), "version: 5000 (ed7adbfef)\nbuilt with cc");

describe("capabilities", () => {
  it("reads names, values, choices and removals of the current build", () => {
    expect(current.version).toBe("b11669");
    expect(findFlag(current, "-fa")).toMatchObject({
      names: ["-fa", "--flash-attn"],
      choices: ["on", "off", "auto"],
    });
    expect(findFlag(current, "--no-kv-unified")?.names).toEqual([
      "-kvu",
      "--kv-unified",
      "-no-kvu",
      "--no-kv-unified",
    ]);
    expect(findFlag(current, "-ctk")?.choices).toContain("iq4_nl");
    expect(findFlag(current, "--spec-type")?.choices).toContain("ngram-cache");
    expect(findFlag(current, "--n-gpu-layers")).toMatchObject({ value: "N" });
    expect(findFlag(current, "--metrics")?.value).toBeUndefined();
    expect(findFlag(current, "--mlock")).toBeUndefined();
    expect(findFlag(current, "--draft-max")).toBeUndefined();
  });

  it("reads an older build", () => {
    expect(older).toMatchObject({ version: "b5000", build: 5000 });
    expect(findFlag(older, "--flash-attn")?.value).toBeUndefined();
    expect(findFlag(older, "--cache-ram")).toBeUndefined();
  });

  it("of any other text are empty", () => {
    expect(parseCapabilities("usage: none\n", "hello")).toMatchObject({
      version: "unknown",
      flags: new Map(),
    });
  });
});
