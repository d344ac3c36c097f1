import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, vi } from "vitest";
import { pidIn, processPorts, runFolder, stateLog } from "../../../src/supervise/fixtures/run.ts";
import { createSupervisor } from "../../../src/supervise/supervisor.ts";
import { until } from "../../../test/bed/until.ts";
import {
  env,
  healthy,
  prepareTiny,
  processes,
  program,
} from "../../../test/fixtures/started-llama-server.ts";
import { chooseEnginePort } from "../../instances/process/engine-port.ts";
import { createLlamaServerDriver } from "./driver.ts";

/** Room for streams of many seconds. */
const LONG = { contextSize: 65_536 };
const AGENT = fileURLToPath(new URL("../../../src/supervise/fixtures/agent.ts", import.meta.url));

describe.skipIf(program === undefined)("a real llama-server", () => {
  it.each(["chat", "embedding", "rerank"] as const)("answers a real request in mode %s", async (mode) => {
    await using folder = runFolder();
    const states = stateLog();
    const { driver, dir, prepared, target } = await prepareTiny(folder, { mode, parallelSlots: 2 });
    const { start } = createSupervisor(processPorts());
    // ggml would otherwise run a debugger on the dying engine, which keeps its memory and its port meanwhile.
    expect(prepared.env).toMatchObject({ GGML_NO_BACKTRACE: "1" });
    const engine = await start(dir, { ...prepared, record: {} }, states.onChange);
    await healthy(driver, target);
    expect(await driver.probeRequest(target)).toBe("ok");
    expect(await driver.readWork(target)).toMatchObject({ inFlight: 0 });
    expect(await driver.readContextPerSlot(target)).toBe(256);
    await until(async () =>
      expect(await driver.probeLive(target)).toMatchObject({ health: "healthy", progress: { inFlight: 0 } }),
    );
    expect(await driver.probeRequest({ ...target, modelAlias: "other" })).toEqual({
      failed: expect.stringContaining("a server of tiny, not of other"),
    });
    const wrong = mode === "chat" ? "embedding" : "rerank";
    const answer = await driver.probeRequest({ ...target, mode: wrong });
    if (mode !== "rerank") expect(answer).toEqual({ failed: expect.stringContaining("HTTP 501") });
    await until(() => expect(engine.state().at).toBe("running"));
    await engine.signal("TERM");
    expect(await states.until("gone")).toEqual({ at: "gone", exit: { code: 0 } });
    expect(driver.classifyExit({ code: 0 }, await engine.logTail(4096)).code).toBe("EngineKilled");
    expect(await driver.readWork(target)).toBe("unknown");
    expect(await driver.probeHealth(target)).toEqual({ unhealthy: "nothing is listening on the port" });
  });

  it.each([
    [undefined, { failed: expect.stringContaining("Pooling type 'none'") }],
    ["mean", "ok"],
  ] as const)("answers for embeddings with a chat model and pooling %s: %j", async (pooling, expected) => {
    await using folder = runFolder();
    const { driver, dir, prepared, target } = await prepareTiny(
      folder,
      { mode: "embedding", pooling },
      { embedding: false },
    );
    await createSupervisor(processPorts()).start(dir, { ...prepared, record: {} }, () => {});
    await healthy(driver, target);
    expect(await driver.probeRequest(target)).toEqual(expected);
  });

  it("a real llama-server requires its key for every path except /health", async () => {
    await using folder = runFolder();
    const { driver, dir, target, launch } = await prepareTiny(folder);
    const apiKeyFile = join(folder.root, "key");
    writeFileSync(apiKeyFile, "secret-1\nsecret-2\n", { mode: 0o600 });
    const prepared = await driver.prepare({ ...launch, apiKeyFile }, dir);
    expect(prepared.argv.join(" ")).not.toContain("secret-1");
    await createSupervisor(processPorts()).start(dir, { ...prepared, record: {} }, () => {});
    await healthy(driver, target);
    expect(await driver.readWork(target)).toBe("unknown");
    expect(await driver.probeRequest({ ...target, apiKey: "secret-2" })).toBe("ok");
    expect(await driver.readWork({ ...target, apiKey: "secret-1" })).toMatchObject({ inFlight: 0 });
    expect(await driver.probeRequest(target)).toEqual({ failed: expect.stringContaining("401") });
  });

  it("a real llama-server listens on loopback and on the registered address", async (context) => {
    const address = Object.values(networkInterfaces())
      .flatMap((list) => list ?? [])
      .find((one) => !one.internal && one.family === "IPv4")?.address;
    if (address === undefined) return context.skip("this machine has no address beside loopback");
    await using folder = runFolder();
    const { driver, dir, target, launch } = await prepareTiny(folder);
    const prepared = await driver.prepare({ ...launch, address }, dir);
    await createSupervisor(processPorts()).start(dir, { ...prepared, record: {} }, () => {});
    await healthy(driver, target);
    expect(await driver.probeHealth({ ...target, host: address })).toBe("healthy");
    expect(
      await chooseEnginePort({
        range: [launch.port, launch.port + 1],
        taken: new Set(),
        previous: launch.port,
      }),
    ).toBe(launch.port + 1);
  });

  it("a real llama-server survives the agent's SIGKILL during a stream, which arrives complete, and is adopted with the same pid", async () => {
    await using folder = runFolder();
    const { driver, dir, prepared, target } = await prepareTiny(folder, LONG, {
      endless: true,
      contextLength: LONG.contextSize,
    });
    const first = spawn(process.execPath, [AGENT, dir, "", ...prepared.argv], {
      stdio: ["ignore", "pipe", "inherit"],
      env,
    });
    await healthy(driver, target);
    const pid = await until(() => {
      expect(pidIn(dir)).toBeGreaterThan(1);
      return pidIn(dir);
    });
    const answer = await fetch(`http://127.0.0.1:${target.port}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify({ stream: true, max_tokens: 2_000, messages: [{ role: "user", content: "Hi" }] }),
    });
    const reader = (answer.body ?? new ReadableStream()).getReader();
    let text = new TextDecoder().decode((await reader.read()).value);
    // Frozen until it is adopted: on any machine the answer is still on its way then.
    process.kill(pid, "SIGSTOP");
    first.kill("SIGKILL");
    await once(first, "exit");
    const states = stateLog();
    const engine = await createSupervisor(processPorts()).adopt(dir, states.onChange);
    expect(engine?.state()).toMatchObject({ at: "running", pid });
    process.kill(pid, "SIGCONT");
    expect(await driver.readWork(target)).toMatchObject({ inFlight: 1 });
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      text += new TextDecoder().decode(value);
    }
    expect(text.trimEnd().endsWith("data: [DONE]")).toBe(true);
    expect(text.split("\n").filter((line) => line.includes('"delta"')).length).toBeGreaterThan(1_500);
    expect(await engine?.logTail(10_000)).toContain("listening");
    expect(await driver.probeRequest(target)).toBe("ok");
    await engine?.signal("KILL");
    expect(await states.until("gone")).toEqual({ at: "gone", exit: { signal: "SIGKILL" } });
  });

  it("a real llama-server counts a running stream as a request in flight, and its counters advance", async () => {
    await using folder = runFolder();
    const { driver, dir, prepared, target } = await prepareTiny(folder, LONG, {
      endless: true,
      contextLength: LONG.contextSize,
    });
    await createSupervisor(processPorts()).start(dir, { ...prepared, record: {} }, () => {});
    await healthy(driver, target);
    const abort = new AbortController();
    const answer = await fetch(`http://127.0.0.1:${target.port}/completion`, {
      method: "POST",
      signal: abort.signal,
      body: JSON.stringify({ prompt: "Hi", stream: true, n_predict: -1 }),
    });
    await answer.body?.getReader().read();
    await until(async () => expect(await driver.readWork(target)).toMatchObject({ inFlight: 1 }));
    const progress = async () => {
      const live = await driver.probeLive(target);
      if (typeof live.progress === "string") throw new Error("no gauges");
      return live.progress;
    };
    const before = await until(progress);
    await until(async () => {
      const after = await progress();
      expect(after.decodeTotal + after.tokensTotal).toBeGreaterThan(before.decodeTotal + before.tokensTotal);
    });
    abort.abort();
    await until(async () => expect(await driver.readWork(target)).toMatchObject({ inFlight: 0 }));
  });

  it("a real llama-server exits at the second SIGTERM during a stream", async () => {
    await using folder = runFolder();
    const states = stateLog();
    const { driver, dir, prepared, target } = await prepareTiny(folder, LONG, {
      endless: true,
      contextLength: LONG.contextSize,
    });
    const engine = await createSupervisor(processPorts()).start(
      dir,
      { ...prepared, record: {} },
      states.onChange,
    );
    await healthy(driver, target);
    const answer = await fetch(`http://127.0.0.1:${target.port}/completion`, {
      method: "POST",
      body: JSON.stringify({ prompt: "Hi", stream: true, n_predict: -1 }),
    });
    const reader = answer.body?.getReader();
    await reader?.read();
    await vi.waitFor(
      () => {
        void engine.signal("TERM");
        expect(engine.state().at).toBe("gone");
      },
      { interval: 500, timeout: 60_000 },
    );
    const state = await states.until("gone");
    expect([{ code: 0 }, { code: 1 }]).toContainEqual(state.at === "gone" ? state.exit : undefined);
    await reader?.cancel().catch(() => {});
  });

  it("a real llama-server is found by a configured path and on PATH, and lists its devices", async () => {
    const driver = createLlamaServerDriver({ paths: ["/nowhere", program ?? ""], env, processes });
    expect(await driver.detect()).toMatchObject({
      name: "llama-server",
      path: program,
      version: expect.stringMatching(/^b\d+$/),
    });
    expect(Array.isArray(await driver.devices())).toBe(true);
    const onPath = createLlamaServerDriver({
      paths: [],
      env: { ...env, PATH: `${join(program ?? "", "..")}:${env.PATH}` },
      processes,
    });
    expect(await onPath.detect()).toMatchObject({ path: program });
  });
});
