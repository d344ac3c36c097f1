import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { engineFlags } from "../demo/engine.ts";
import type { PartsConfig } from "./config.ts";
import { findLlamaServer } from "./engine-programs.ts";
import { findClusterParts, partFolders, requireScheduler } from "./parts.ts";

async function program(file: string): Promise<string> {
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, "#!/bin/sh\n", { mode: 0o755 });
  return file;
}

const machine = { platform: "linux", arch: "arm64", programFolders: [] };

test("findClusterParts finds each program in KUBEBUILDER_ASSETS first, then in the cache", async () => {
  await using folder = await temporaryFolder();
  const config: PartsConfig = {
    ...machine,
    cacheDir: folder.path,
    assetsDir: path.join(folder.path, "assets"),
  };
  const [, cached = ""] = partFolders(config);
  expect(cached).toMatch(/cluster-parts\/v[^/]+-linux-arm64$/);
  const etcd = await program(path.join(folder.path, "assets", "etcd"));
  await program(path.join(cached, "etcd"));
  const kubeApiserver = await program(path.join(cached, "kube-apiserver"));
  const parts = findClusterParts(config);
  expect(parts).toEqual({ etcd, kubeApiserver });
  expect(() => requireScheduler(parts, config)).toThrow(
    expect.objectContaining({
      code: "ClusterPartsMissing",
      message: expect.stringContaining("kube-scheduler"),
    }),
  );
});

test("findClusterParts names the missing programs and the command that installs them", async () => {
  await using folder = await temporaryFolder();
  const config: PartsConfig = { ...machine, cacheDir: folder.path };
  await program(path.join(partFolders(config)[0] ?? "", "etcd"));
  const error = (() => {
    try {
      return findClusterParts(config);
    } catch (thrown) {
      return thrown;
    }
  })();
  expect(error).toBeInstanceOf(MetalbridgeError);
  expect(error).toMatchObject({ code: "ClusterPartsMissing", remedy: { command: "npm run setup" } });
  expect(String(error)).toMatch(/kube-apiserver not found/);
  expect(String(error)).not.toMatch(/etcd and/);
});

test("findLlamaServer prefers the configured program, then PATH, then the newest in the cache", async () => {
  await using folder = await temporaryFolder();
  const at = (...names: string[]) => path.join(folder.path, ...names);
  const config: PartsConfig = { ...machine, cacheDir: at("cache"), programFolders: [at("bin")] };
  expect(findLlamaServer(config)).toBeUndefined();
  await program(at("cache", "llama-server", "b900", "bin", "llama-server"));
  const newest = await program(at("cache", "llama-server", "b11669", "bin", "llama-server"));
  await program(at("cache", "llama-server", ".unfinished", "bin", "llama-server"));
  expect(findLlamaServer(config)).toBe(newest);
  const onPath = await program(at("bin", "llama-server"));
  expect(findLlamaServer(config)).toBe(onPath);
  const named = await program(at("mine"));
  expect(findLlamaServer({ ...config, llamaServer: named })).toBe(named);
});

test("engineFlags finds the requested engine, or throws with the command that installs it", async () => {
  await using folder = await temporaryFolder();
  const config: PartsConfig = { ...machine, cacheDir: folder.path };
  await program(path.join(folder.path, "llama-server", "b900", "bin", "llama-server"));
  expect(engineFlags("llamacpp", config)[0]).toBe("--llama-server");
  expect(() => engineFlags("ollama", config)).toThrow(
    expect.objectContaining({
      code: "RuntimeNotInstalled",
      message: expect.stringContaining("ollama was not found"),
      remedy: expect.objectContaining({ command: "brew install ollama" }),
    }),
  );
  const cached = await program(path.join(folder.path, "ollama", "v0.9.6-linux-arm64", "ollama"));
  expect(engineFlags("ollama", config)).toEqual(["--ollama", cached]);
});
