import { expect, test } from "vitest";
import { readPartsConfig } from "./config.ts";

const linux = { platform: "linux", arch: "x64", home: "/home/u" };

test("the cache is METALBRIDGE_CACHE, else XDG's, else the platform's", () => {
  const cacheOf = (env: Record<string, string>, machine = linux) => readPartsConfig(env, machine).cacheDir;
  expect(cacheOf({ METALBRIDGE_CACHE: "/c", XDG_CACHE_HOME: "/x" })).toBe("/c");
  expect(cacheOf({ XDG_CACHE_HOME: "/x" })).toBe("/x/metalbridge");
  expect(cacheOf({})).toBe("/home/u/.cache/metalbridge");
  expect(cacheOf({}, { ...linux, platform: "darwin" })).toBe("/home/u/Library/Caches/metalbridge");
});

test("an empty variable counts as absent", () => {
  const config = readPartsConfig({ KUBEBUILDER_ASSETS: "", METALBRIDGE_CACHE: "" }, linux);
  expect(config.assetsDir).toBeUndefined();
  expect(config.cacheDir).toBe("/home/u/.cache/metalbridge");
});

test("a relative folder is refused with the variable's name", () => {
  expect(() => readPartsConfig({ KUBEBUILDER_ASSETS: "bin" }, linux)).toThrow(
    /KUBEBUILDER_ASSETS must be an absolute/,
  );
});
