import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, vi } from "vitest";
import type { EngineSettings } from "../../../src/api/engine-settings.ts";
import type { ReplicaTemplate } from "../../../src/api/inference-replica.ts";
import { findLlamaServer } from "../../../test/fixtures/llama-server.ts";
import { writeTinyGguf } from "../../../test/fixtures/tiny-gguf.ts";
import { makeFolder, pidIn, processPorts, runFolder, stateLog } from "../../process/fixtures/run.ts";
import { createEngineProcesses } from "../../process/processes.ts";
import type { EngineTarget } from "../engine.ts";
import { choosePort } from "../ports.ts";
import { engineEnvironment } from "../registry.ts";
import { createLlamaServerDriver } from "./driver.ts";

const program = findLlamaServer();
const env = engineEnvironment(process.env);
const AGENT = fileURLToPath(new URL("../../process/fixtures/agent.ts", import.meta.url));
const RANGE = [21700, 21899] as const;

function template(engine: Partial<EngineSettings> = {}): ReplicaTemplate {
  return {
    hostName: "host",
    serviceName: "tiny",
    serviceUid: "uid",
    revision: "r1",
    runtime: "llamacpp",
    model: { source: "/m.gguf", files: [], format: "gguf", refreshPolicy: "IfNotPresent" },
    engine: { mode: "chat", contextSize: 512, noWarmup: true, extraArgs: ["--threads", "1"], ...engine },
  };
}

/** The real llama-server on a tiny model, started through the keeper. */
async function start(
  folder: ReturnType<typeof runFolder>,
  engine: Partial<EngineSettings> = {},
  options = {},
) {
  const driver = createLlamaServerDriver({ paths: [program ?? ""], env });
  const dir = makeFolder(folder.dir());
  const modelPath = join(folder.root, "tiny.gguf");
  await writeTinyGguf(modelPath, { embedding: engine.mode === "embedding", ...options });
  const port = await choosePort({ range: RANGE, taken: new Set() });
  const launch = { template: template(engine), modelPath, address: "127.0.0.1", port, dir };
  const prepared = await driver.prepare(launch);
  const target: EngineTarget = { host: "127.0.0.1", port, mode: engine.mode ?? "chat", modelAlias: "tiny" };
  return { driver, dir, prepared, target, launch };
}

async function healthy(
  driver: ReturnType<typeof createLlamaServerDriver>,
  target: EngineTarget,
): Promise<void> {
  await vi.waitFor(async () => expect(await driver.probeHealth(target)).toBe("healthy"), {
    timeout: 15_000,
    interval: 50,
  });
}

describe.skipIf(program === undefined)("a real llama-server", () => {
  it.each(["chat", "embedding", "rerank"] as const)("answers a real request in mode %s", async (mode) => {
    await using folder = runFolder();
    const states = stateLog();
    const { driver, dir, prepared, target } = await start(folder, { mode, parallelSlots: 2 });
    const { startEngine } = createEngineProcesses(processPorts());
    const engine = await startEngine(dir, { ...prepared, record: {} }, states.onChange);
    await healthy(driver, target);
    expect(await driver.probeRequest(target)).toBe("ok");
    expect(await driver.inFlight(target)).toBe(0);
    expect(await driver.facts(target)).toEqual({ contextPerSlot: 256 });
    expect(await driver.progress(target)).toMatchObject({ inFlight: 0 });
    expect(await driver.probeRequest({ ...target, modelAlias: "other" })).toEqual({
      failed: expect.stringContaining("a server of tiny, not of other"),
    });
    const wrong = mode === "chat" ? "embedding" : "rerank";
    const answer = await driver.probeRequest({ ...target, mode: wrong });
    if (mode !== "rerank") expect(answer).toEqual({ failed: expect.stringContaining("HTTP 501") });
    engine.signal("TERM");
    expect(await states.until("gone")).toEqual({ at: "gone", exit: { code: 0 } });
    expect(driver.classifyExit({ code: 0 }, await engine.logTail(4096)).code).toBe("EngineKilled");
    expect(await driver.inFlight(target)).toBe("unknown");
    expect(await driver.probeHealth(target)).toEqual({ unhealthy: "nobody listens on the port" });
  });

  it("asks for its key everywhere but at /health", async () => {
    await using folder = runFolder();
    const { driver, dir, target, launch } = await start(folder);
    const apiKeyFile = join(folder.root, "key");
    writeFileSync(apiKeyFile, "secret-1\nsecret-2\n", { mode: 0o600 });
    const prepared = await driver.prepare({ ...launch, apiKeyFile });
    expect(prepared.argv.join(" ")).not.toContain("secret-1");
    await createEngineProcesses(processPorts()).startEngine(dir, { ...prepared, record: {} }, () => {});
    await healthy(driver, target);
    expect(await driver.inFlight(target)).toBe("unknown");
    expect(await driver.probeRequest({ ...target, apiKey: "secret-2" })).toBe("ok");
    expect(await driver.inFlight({ ...target, apiKey: "secret-1" })).toBe(0);
    expect(await driver.probeRequest(target)).toEqual({ failed: expect.stringContaining("401") });
  });

  it("listens on loopback and on the registered address", async (context) => {
    const address = Object.values(networkInterfaces())
      .flatMap((list) => list ?? [])
      .find((one) => !one.internal && one.family === "IPv4")?.address;
    if (address === undefined) return context.skip("this machine has no address beside loopback");
    await using folder = runFolder();
    const { driver, dir, target, launch } = await start(folder);
    const prepared = await driver.prepare({ ...launch, address });
    await createEngineProcesses(processPorts()).startEngine(dir, { ...prepared, record: {} }, () => {});
    await healthy(driver, target);
    expect(await driver.probeHealth({ ...target, host: address })).toBe("healthy");
    expect(
      await choosePort({ range: [launch.port, launch.port + 1], taken: new Set(), previous: launch.port }),
    ).toBe(launch.port + 1);
  });

  it("survives the agent's SIGKILL in the middle of a stream, which arrives whole, and is adopted with the same pid", async () => {
    await using folder = runFolder();
    const { driver, dir, prepared, target } = await start(folder, {}, { endless: true });
    const first = spawn(process.execPath, [AGENT, dir, "", ...prepared.argv], {
      stdio: ["ignore", "pipe", "inherit"],
      env,
    });
    await healthy(driver, target);
    const pid = pidIn(dir);
    const answer = await fetch(`http://127.0.0.1:${target.port}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify({ stream: true, max_tokens: 400, messages: [{ role: "user", content: "Hi" }] }),
    });
    const reader = (answer.body ?? new ReadableStream()).getReader();
    let text = new TextDecoder().decode((await reader.read()).value);
    first.kill("SIGKILL");
    await once(first, "exit");
    const states = stateLog();
    const engine = await createEngineProcesses(processPorts()).adoptEngine(dir, states.onChange);
    expect(engine?.state()).toMatchObject({ at: "running", pid });
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      text += new TextDecoder().decode(value);
    }
    expect(text.trimEnd().endsWith("data: [DONE]")).toBe(true);
    expect(text.split("\n").filter((line) => line.includes('"delta"')).length).toBeGreaterThan(300);
    expect(await engine?.logTail(10_000)).toContain("listening");
    expect(await driver.probeRequest(target)).toBe("ok");
    engine?.signal("KILL");
    expect(await states.until("gone")).toEqual({ at: "gone", exit: { signal: "SIGKILL" } });
  });

  it("counts a running stream as work in flight, and its counters move", async () => {
    await using folder = runFolder();
    const { driver, dir, prepared, target } = await start(folder, {}, { endless: true });
    await createEngineProcesses(processPorts()).startEngine(dir, { ...prepared, record: {} }, () => {});
    await healthy(driver, target);
    const abort = new AbortController();
    const answer = await fetch(`http://127.0.0.1:${target.port}/completion`, {
      method: "POST",
      signal: abort.signal,
      body: JSON.stringify({ prompt: "Hi", stream: true, n_predict: -1 }),
    });
    await answer.body?.getReader().read();
    await vi.waitFor(async () => expect(await driver.inFlight(target)).toBe(1));
    const before = await driver.progress(target);
    await vi.waitFor(
      async () => {
        const after = await driver.progress(target);
        if (before === "unknown" || after === "unknown") throw new Error("no gauges");
        expect(after.decodeTotal + after.tokensTotal).toBeGreaterThan(
          before.decodeTotal + before.tokensTotal,
        );
      },
      { timeout: 5_000 },
    );
    abort.abort();
    await vi.waitFor(async () => expect(await driver.inFlight(target)).toBe(0), { timeout: 5_000 });
  });

  it.each([
    ["a missing file", "EngineModelMissing", "missing.gguf"],
    ["a file that is no model", "EngineBadModel", "garbage.gguf"],
    ["a port that is taken", "EnginePortTaken", "tiny.gguf"],
    ["an argument it does not know", "EngineFlagRefused", "tiny.gguf"],
    ["heads that a cache type does not fit", "EngineSettingsRefused", "tiny.gguf"],
  ] as const)("that ends because of %s is classified as %s", async (_name, code, file) => {
    await using folder = runFolder();
    const states = stateLog();
    const { driver, dir, launch } = await start(
      folder,
      code === "EngineSettingsRefused" ? { cacheTypeK: "q8_0" } : {},
      { heads: 4 },
    );
    writeFileSync(join(folder.root, "garbage.gguf"), "<html>not found</html>".repeat(100));
    const prepared = await driver.prepare({ ...launch, modelPath: join(folder.root, file) });
    const more = code === "EngineFlagRefused" ? ["--mlock"] : [];
    await using stranger = await listenOn(code === "EnginePortTaken" ? launch.port : 0);
    const engine = await createEngineProcesses(processPorts()).startEngine(
      dir,
      { argv: [...prepared.argv, ...more], env: prepared.env, record: {} },
      states.onChange,
    );
    const state = await states.until("gone");
    expect(stranger.port).toBeGreaterThan(0);
    expect(state).toMatchObject({ exit: { code: 1 } });
    expect(driver.classifyExit({ code: 1 }, await engine.logTail(8192)).code).toBe(code);
  });

  it("is found by a configured path and on PATH, and tells its devices", async () => {
    const driver = createLlamaServerDriver({ paths: ["/nowhere", program ?? ""], env });
    expect(await driver.detect()).toMatchObject({
      name: "llama-server",
      path: program,
      version: expect.stringMatching(/^b\d+$/),
    });
    expect(Array.isArray(await driver.devices())).toBe(true);
    const onPath = createLlamaServerDriver({
      paths: [],
      env: { ...env, PATH: `${join(program ?? "", "..")}:${env.PATH}` },
    });
    expect(await onPath.detect()).toMatchObject({ path: program });
  });
});

describe("a host where llama-server", () => {
  const make = (folder: ReturnType<typeof runFolder>, script: string, mode = 0o755) => {
    const path = join(folder.root, "llama-server");
    writeFileSync(path, `#!/bin/sh\n${script}\n`);
    chmodSync(path, mode);
    return createLlamaServerDriver({ paths: [path], env: { PATH: "/usr/bin:/bin" } });
  };
  const older = fileURLToPath(
    new URL("../../../src/engines/llama-server/fixtures/help-b5000-style.txt", import.meta.url),
  );

  it("is not installed detects nothing and prepares nothing", async () => {
    await using folder = runFolder();
    const driver = createLlamaServerDriver({ paths: ["/nowhere"], env: { PATH: folder.root } });
    expect(await driver.detect()).toBeUndefined();
    const launch = { template: template(), modelPath: "/m", address: "127.0.0.1", port: 1, dir: folder.root };
    await expect(driver.prepare(launch)).rejects.toMatchObject({ code: "RuntimeNotInstalled" });
  });

  it.each([
    ["is not executable", "true", 0o644, "RuntimeNotExecutable"],
    ["crashes at once", "kill -SEGV $$", 0o755, "RuntimeBroken"],
    ["prints nothing", "true", 0o755, "RuntimeBroken"],
    ["never answers", "exec sleep 60", 0o755, "RuntimeBroken"],
    ["is too old", `cat '${older}'`, 0o755, "RuntimeTooOld"],
  ] as const)("%s says so", async (_name, script, mode, code) => {
    await using folder = runFolder();
    await expect(make(folder, script, mode).detect()).rejects.toMatchObject({ code });
  });

  it("was replaced is asked again", async () => {
    if (program === undefined) return;
    await using folder = runFolder();
    const driver = make(folder, "kill -SEGV $$");
    await expect(driver.detect()).rejects.toMatchObject({ code: "RuntimeBroken" });
    writeFileSync(join(folder.root, "llama-server"), `#!/bin/sh\nexec '${program}' "$@"\n`);
    expect(await driver.detect()).toMatchObject({ name: "llama-server" });
  });
});

async function listenOn(port: number) {
  const server = createServer().listen(port, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : 0,
    [Symbol.asyncDispose]: async () => {
      server.close();
    },
  };
}
