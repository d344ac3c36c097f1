/** The driver on the real Ollama: load, share, adopt, unload, and every way this goes wrong. */
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { isLiving, pidIn, runFolder } from "../../../src/supervise/fixtures/run.ts";
import { createSerializer } from "../../../src/util/serializer.ts";
import { freeze } from "../../../test/bed/signal.ts";
import { launchOf, measured, untilState } from "../../../test/fixtures/driver-agent.ts";
import {
  foundServer,
  ollama,
  ollamaAgent,
  runnersOf,
  tinyModel,
  weightsOf,
} from "../../../test/fixtures/ollama.ts";
import { writeTinyGguf } from "../../../test/fixtures/tiny-gguf.ts";
import { isFree } from "../../instances/process/engine-port.ts";
import { createInspector } from "../../store/inspect.ts";
import type { EngineTarget } from "../driver/engine.ts";
import { ollamaApi, runningModels } from "./api.ts";

const chat = (target: object): EngineTarget => ({ ...(target as EngineTarget), mode: "chat" });
/** Processes of the models that a server has loaded. */
const SOON = { timeout: 60_000, interval: 20 };

describe.skipIf(ollama === undefined)("a real Ollama", () => {
  test("a real Ollama loads a model of the store without a copy, answers, and leaves no files or processes when it is stopped", async () => {
    await using folder = runFolder();
    const { driver, placeOf, instances } = ollamaAgent(folder);
    expect(await driver.detect()).toMatchObject({ name: "ollama", path: ollama });
    const model = await tinyModel(folder);
    const instance = await driver.open(placeOf("a"), launchOf(model));
    expect(instance.state()).toMatchObject({ at: "starting" });
    await untilState(instance, "running");
    const target = chat(instance.target);
    expect(target).toMatchObject({
      host: "127.0.0.1",
      modelAlias: expect.stringMatching(/^metalbridge-.*:latest$/),
    });
    expect(await driver.probeHealth(target, { timeoutMs: 60_000 })).toBe("healthy");
    expect(await driver.probeRequest(target)).toBe("ok");
    expect(driver.readWork).toBeUndefined();
    expect(await instance.footprintBytes()).toBeGreaterThan(model.sizeBytes);
    // One file under two names, or two that share their blocks.
    const blob = join(folder.root, "ollama", "models", "blobs", `sha256-${model.sha256}`);
    const [mine, theirs] = [statSync(model.path), statSync(blob)];
    expect(mine.ino === theirs.ino || mine.nlink === 1).toBe(true);
    // The server itself counts once, beside the model's claim.
    const own = await measured(instances, 5 * 2 ** 20);
    expect(own).toBeLessThan(150 * 2 ** 20);

    instance.stopBy(performance.now() + 10_000);
    expect(await untilState(instance, "gone")).toMatchObject({ exit: { code: 0 } });
    const [daemon = ""] = readdirSync(join(folder.root, "daemons"));
    await vi.waitFor(() => expect(isLiving(pidIn(join(folder.root, "daemons", daemon)))).toBe(false), SOON);
    const blobs = readdirSync(join(folder.root, "ollama", "models", "blobs"));
    expect(blobs.map((name) => statSync(join(folder.root, "ollama", "models", "blobs", name)).size)).toEqual([
      0,
    ]);
    expect(await isFree(target.port, ["127.0.0.1"])).toBe(true);
  });

  test("two services on one model share it; another model of the same name joins the same server; other settings get a separate server", async () => {
    await using folder = runFolder();
    await using elsewhere = runFolder();
    const { driver, placeOf } = ollamaAgent(folder);
    const [first, second] = [await tinyModel(folder), await tinyModel(elsewhere, "tiny", 2)];
    const one = await driver.open(placeOf("a"), launchOf(first));
    const same = await driver.open(placeOf("b"), launchOf(first));
    const other = await driver.open(placeOf("c"), launchOf(second));
    const wide = await driver.open(placeOf("d"), launchOf(first, { contextSize: 1024 }));
    for (const instance of [one, same, other, wide]) await untilState(instance, "running");
    expect(same.target).toEqual(one.target);
    expect(other.target.port).toBe(one.target.port);
    expect(other.target.modelAlias).not.toBe(one.target.modelAlias);
    expect(wide.target.port).not.toBe(one.target.port);
    expect(await runningModels(one.target)).toHaveLength(2);

    same.stopBy(performance.now() + 10_000);
    await untilState(same, "gone");
    expect(await driver.probeRequest(chat(one.target))).toBe("ok");
    one.killNow();
    await untilState(one, "gone");
    expect(await driver.probeHealth(chat(one.target))).toMatchObject({
      unhealthy: expect.stringContaining("no longer"),
    });
    expect(await driver.probeRequest(chat(other.target))).toBe("ok");
  });

  test("the next agent adopts running models, and stops an Ollama without references", async () => {
    await using folder = runFolder();
    const model = await tinyModel(folder);
    const before = ollamaAgent(folder);
    const place = before.placeOf("a");
    const opened = await before.driver.open(place, launchOf(model));
    await untilState(opened, "running");
    const record = JSON.parse(readFileSync(join(place.dir, "engine.json"), "utf8"));
    opened.close();

    const after = ollamaAgent(folder);
    const adopted = await after.driver.adopt(after.placeOf("a"), { port: 1, service: "tiny", record });
    expect(adopted?.state()).toMatchObject({ at: "running", pid: expect.any(Number) });
    expect(adopted?.target).toEqual(opened.target);
    await after.instances.daemons.stopUnused(() => true);
    expect(await after.driver.probeRequest(chat(opened.target))).toBe("ok");
    adopted?.close();

    const last = ollamaAgent(folder);
    await last.instances.daemons.stopUnused(() => true);
    await vi.waitFor(async () => expect(await isFree(opened.target.port, ["127.0.0.1"])).toBe(true), SOON);
    const gone = await last.driver.adopt(last.placeOf("a"), { port: 1, service: "tiny", record });
    // It closes its port before it exits.
    expect(gone && (await untilState(gone, "gone"))).toMatchObject({ at: "gone" });
  });

  test("an embedding model is loaded and probed with embedding requests", async () => {
    await using folder = runFolder();
    const { driver, placeOf } = ollamaAgent(folder);
    const path = join(folder.root, "embed.gguf");
    const { sizeBytes } = await writeTinyGguf(path, { embedding: true });
    const files = [{ name: "embed.gguf", path, sizeBytes }];
    const instance = await driver.open(placeOf("a"), launchOf({ path, files }, { mode: "embedding" }));
    await untilState(instance, "running");
    expect(await driver.probeRequest({ ...instance.target, mode: "embedding" })).toBe("ok");
    expect(await driver.probeRequest(chat(instance.target))).toMatchObject({
      failed: expect.stringContaining("HTTP 400"),
    });
  });

  test.each([1, 4])("the claim covers Ollama's buffers for %i slots", async (parallelSlots) => {
    await using folder = runFolder();
    const { driver, placeOf } = ollamaAgent(folder);
    const path = join(folder.root, "wide.gguf");
    const shape = {
      layers: 8,
      embeddingSize: 512,
      heads: 8,
      kvHeads: 4,
      feedForwardSize: 1024,
      vocabularySize: 8_000,
    };
    const { sizeBytes } = await writeTinyGguf(path, { ...shape, sparse: true });
    const engine = { contextSize: 4096 * parallelSlots, parallelSlots };
    const files = [{ name: "wide.gguf", path, sizeBytes }];
    const instance = await driver.open(placeOf("a"), launchOf({ path, files }, engine));
    await untilState(instance, "running");
    const printed = await vi.waitFor(() => {
      const log = readFileSync(instance.logPath, "utf8");
      const found = [...log.matchAll(/(?:model|KV|compute|output) buffer size = +([\d.]+) MiB/g)];
      expect(found.length).toBeGreaterThanOrEqual(4);
      return found;
    }, SOON);
    const buffers = printed.reduce((sum, [, mib]) => sum + Number(mib) * 2 ** 20, 0);
    const facts = await createInspector()({ path, sizeBytes, files });
    const { claimBytes: claim } = driver.claim({ mode: "chat", ...engine }, facts);
    // Beside the buffers it counts a process of 96 MiB.
    expect(claim - 96 * 2 ** 20).toBeGreaterThan(buffers * 0.98);
    expect(claim - 96 * 2 ** 20).toBeLessThan(buffers * 1.3);
  });

  test("a model stays loaded after another client gave it an idle timeout", async () => {
    await using folder = runFolder();
    const { driver, placeOf } = ollamaAgent(folder);
    const instance = await driver.open(placeOf("a"), launchOf(await tinyModel(folder)));
    await untilState(instance, "running");
    const { port, modelAlias } = instance.target;
    const body = JSON.stringify({
      model: modelAlias,
      prompt: "Hi",
      keep_alive: "5m",
      stream: false,
      options: { num_predict: 1 },
    });
    await (await fetch(`http://127.0.0.1:${port}/api/generate`, { method: "POST", body })).text();
    const expiry = async () => {
      const answer = await (await fetch(`http://127.0.0.1:${port}/api/ps`)).text();
      return new Date(JSON.parse(answer).models[0].expires_at).getFullYear();
    };
    await vi.waitFor(async () => expect(await expiry()).toBeLessThan(2200), SOON);
    expect(await driver.probeHealth(chat(instance.target))).toBe("healthy");
    await vi.waitFor(async () => expect(await expiry()).toBeGreaterThan(2200), SOON);
  });

  test.each([
    ["is no GGUF", (path: string) => writeFileSync(path, "<html>not found</html>")],
    ["was cut off", (path: string) => writeFileSync(path, readFileSync(path).subarray(0, 100_000))],
  ])("a file that %s ends its replica with what Ollama says, and no other", async (_, spoil) => {
    await using folder = runFolder();
    const { driver, placeOf } = ollamaAgent(folder);
    const good = await driver.open(placeOf("good"), launchOf(await tinyModel(folder)));
    const bad = await tinyModel(folder, "bad", 3);
    spoil(bad.path);
    const { size } = statSync(bad.path);
    // Without a checksum, as a file that is used in place.
    const files = [{ name: "bad.gguf", path: bad.path, sizeBytes: size }];
    const instance = await driver.open(placeOf("bad"), launchOf({ path: bad.path, files }));
    expect(await untilState(instance, "gone")).toMatchObject({
      exit: {
        because: {
          code: "EngineBadModel",
          message: expect.stringMatching(/not in GGUF format|unable to load model/),
        },
      },
    });
    instance.close();
    await untilState(good, "running");
    expect(await driver.probeRequest(chat(good.target))).toBe("ok");
    const blobs = readdirSync(
      join(folder.root, "ollama", "models", "manifests", "registry.ollama.ai", "library"),
    );
    expect(blobs).toHaveLength(1);
  });

  test("settings and files that Ollama cannot honor are rejected before a server is started", async () => {
    await using folder = runFolder();
    const { driver, placeOf } = ollamaAgent(folder);
    const model = await tinyModel(folder);
    const open = (engine: object, files = model.files) =>
      driver.open(placeOf("a"), launchOf({ ...model, files }, engine));
    await expect(open({ mode: "rerank" })).rejects.toMatchObject({ code: "SettingNotSupported" });
    await expect(open({ cacheTypeK: "q4_1" })).rejects.toMatchObject({ code: "SettingNotSupported" });
    await expect(
      open({ cacheTypeK: "q8_0", cacheTypeV: "q8_0", flashAttention: false }),
    ).rejects.toMatchObject({
      code: "CacheTypeMismatch",
    });
    await expect(open({}, [...model.files, ...model.files])).rejects.toMatchObject({
      code: "EngineSettingsRefused",
    });
    expect(readdirSync(folder.root)).not.toContain("daemons");
  });

  test.each([
    ["killed", "SIGKILL"],
    ["hung", "SIGSTOP"],
  ] as const)(
    "%s in the middle of a load it ends its replicas, and starts again for the next",
    async (_, signal) => {
      await using folder = runFolder();
      const { driver, placeOf } = ollamaAgent(folder);
      const model = await tinyModel(folder);
      const first = await driver.open(placeOf("a"), launchOf(model));
      const [daemon = ""] = readdirSync(join(folder.root, "daemons"));
      const pid = await vi.waitFor(() => {
        const found = pidIn(join(folder.root, "daemons", daemon));
        expect(found).toBeGreaterThan(0);
        return found;
      }, SOON);
      process.kill(pid, signal);
      if (signal === "SIGSTOP") first.killNow();
      const gone = await untilState(first, "gone");
      // Before it has begun to load there is nothing to unload, and its server is stopped on its own.
      if (signal === "SIGKILL") expect(gone).toMatchObject({ exit: { signal } });
      first.close();
      const again = await driver.open(placeOf("a"), launchOf(model));
      await untilState(again, "running");
      expect(await driver.probeRequest(chat(again.target))).toBe("ok");
    },
  );

  test("a hung Ollama is killed with its runners, and each of its models ends", async () => {
    await using folder = runFolder();
    const { driver, placeOf } = ollamaAgent(folder);
    const one = await driver.open(placeOf("a"), launchOf(await tinyModel(folder)));
    const two = await driver.open(placeOf("b"), launchOf(await tinyModel(folder, "second", 2)));
    for (const instance of [one, two]) await untilState(instance, "running");
    const state = one.state();
    const pid = state.at === "running" ? (state.pid ?? 0) : 0;
    const children = runnersOf(pid);
    expect(children).toHaveLength(2);
    await freeze(pid);
    expect(await driver.probeHealth(chat(one.target), { timeoutMs: 300 })).toMatchObject({
      unhealthy: expect.stringContaining("no answer"),
    });
    // Each is found to be hung by its own probes.
    for (const instance of [one, two]) instance.killNow();
    for (const instance of [one, two]) await untilState(instance, "gone");
    expect(children.filter(isLiving)).toEqual([]);
  });

  test("a stopped runner makes only its own model unhealthy; the model is unloaded, and starts again for the next replica", async () => {
    await using folder = runFolder();
    const { driver, placeOf } = ollamaAgent(folder);
    const model = await tinyModel(folder);
    const one = await driver.open(placeOf("a"), launchOf(model));
    const state = await untilState(one, "running");
    const pid = state.at === "running" ? (state.pid ?? 0) : 0;
    const weights = weightsOf(runnersOf(pid)[0] ?? 0);
    const two = await driver.open(placeOf("b"), launchOf(await tinyModel(folder, "second", 2)));
    await untilState(two, "running");
    const stopped = new Set<number>();
    // Ollama replaces a process that was slow to answer, on a busy machine before it is stopped.
    await vi.waitFor(async () => {
      for (const runner of runnersOf(pid).filter((each) => weightsOf(each) === weights)) {
        stopped.add(runner);
        process.kill(runner, "SIGSTOP");
      }
      expect(await driver.probeHealth(chat(one.target), { timeoutMs: 1_000 })).toMatchObject({
        unhealthy: expect.stringContaining("its process for metalbridge-"),
      });
    }, SOON);
    one.killNow();
    await untilState(one, "gone", 60_000);
    expect([...stopped].filter(isLiving)).toEqual([]);
    expect(isLiving(pid)).toBe(true);
    expect(await driver.probeHealth(chat(two.target))).toBe("healthy");
    const again = await driver.open(placeOf("a"), launchOf(model));
    await untilState(again, "running");
    expect(await driver.probeRequest(chat(again.target))).toBe("ok");
  });

  test("another Ollama on the port is not taken for the agent's server", async () => {
    await using folder = runFolder();
    await using theirs = await foundServer(folder);
    const mark = "0".repeat(64);
    await expect(ollamaApi(theirs.target, createSerializer(), mark).loaded()).rejects.toThrow(
      "another Ollama",
    );
    await expect(ollamaApi(theirs.target, createSerializer()).loaded()).resolves.toEqual([]);
  });
});

describe.skipIf(ollama === undefined)("an Ollama that was found", () => {
  test("a found Ollama stays unchanged: models of other clients count as used memory, and only the agent's models are unloaded", async () => {
    await using folder = runFolder();
    await using theirs = await foundServer(folder);
    const { driver, placeOf, instances } = ollamaAgent(folder, { address: theirs.address });
    expect(await driver.detect()).toMatchObject({
      version: expect.any(String),
      path: `http://${theirs.address}`,
    });
    await theirs.create("mine", await tinyModel(folder, "foreign", 7));
    await theirs.load("mine");
    const foreign = await measured(instances, 2 ** 20);

    const model = await tinyModel(folder);
    const instance = await driver.open(placeOf("a"), launchOf(model));
    await untilState(instance, "running");
    expect(await driver.probeRequest(chat(instance.target))).toBe("ok");
    // A second set of settings for the same weights would make it load them again and again.
    await expect(driver.open(placeOf("b"), launchOf(model, { contextSize: 1024 }))).rejects.toMatchObject({
      code: "SettingUnavailable",
    });
    await instances.daemons.measure();
    expect(instances.daemons.unclaimedBytes()).toBe(foreign);

    instance.stopBy(performance.now() + 10_000);
    await untilState(instance, "gone");
    expect(await theirs.models()).toEqual(["mine:latest"]);
    expect(await runningModels(theirs.target)).toMatchObject([{ name: "mine:latest" }]);
    expect(isLiving(theirs.pid)).toBe(true);
  });

  test("a found Ollama that hangs, is upgraded or exits is never signaled, and does not block its replicas", async () => {
    await using folder = runFolder();
    await using theirs = await foundServer(folder);
    const { driver, placeOf } = ollamaAgent(folder, { address: theirs.address });
    const model = await tinyModel(folder);
    const instance = await driver.open(placeOf("a"), launchOf(model));
    await untilState(instance, "running");
    await freeze(theirs.pid);
    instance.killNow();
    await untilState(instance, "gone");
    process.kill(theirs.pid, "SIGCONT");
    expect(isLiving(theirs.pid)).toBe(true);

    const again = await driver.open(placeOf("a"), launchOf(model));
    await untilState(again, "running");
    await theirs.restart();
    // Another version has started, without a model: probes see it, and the replica is opened again.
    expect(await driver.probeHealth(chat(again.target))).toMatchObject({
      unhealthy: expect.stringContaining("no longer"),
    });
    again.killNow();
    await untilState(again, "gone");
    const third = await driver.open(placeOf("a"), launchOf(model));
    await untilState(third, "running");
    expect(await driver.probeRequest(chat(third.target))).toBe("ok");
    third.close();
    await theirs.stop();
    await expect(driver.detect()).rejects.toMatchObject({ code: "RuntimeBroken" });
  });
});
