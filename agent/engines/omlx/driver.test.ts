/** The driver on the replayed oMLX, a program of its own: load, share, adopt, unload, and every way this goes wrong. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { systemClock } from "../../../src/kube/system-clock.ts";
import { isLiving, pidIn, runFolder } from "../../../src/supervise/fixtures/run.ts";
import { freeze } from "../../../test/bed/signal.ts";
import { agentWith, measured, untilState } from "../../../test/fixtures/driver-agent.ts";
import {
  chat,
  foundOmlx,
  installOmlx,
  launch,
  omlxAgent,
  stop,
  tinyMlx,
} from "../../../test/fixtures/omlx/agent.ts";
import { writeTinyMlx } from "../../../test/fixtures/tiny-mlx.ts";
import { isFree } from "../../instances/process/engine-port.ts";
import { identifyOmlx, readStatus } from "./api.ts";
import { omlxEngine } from "./driver.ts";

const SOON = { timeout: 60_000, interval: 20 };

describe("an oMLX of the agent's own", () => {
  test("an oMLX of the agent loads a pinned model by links, with the service's settings, and leaves no files or processes when it is stopped", async () => {
    await using folder = runFolder();
    installOmlx(folder.root);
    const { driver, placeOf, instances } = omlxAgent(folder);
    expect(await driver.detect()).toMatchObject({ name: "omlx", version: "0.7.0" });
    const model = tinyMlx(folder);
    const engine = { contextSize: 4096, parallelSlots: 2, turboQuantBits: 6 as const };
    const instance = await driver.open(placeOf("a"), launch(model, engine));
    expect(instance.state()).toMatchObject({ at: "starting" });
    await untilState(instance, "running");
    const target = chat(instance.target);
    expect(target.modelAlias).toMatch(/^metalbridge-[0-9a-f]{16}$/);
    expect(await identifyOmlx(target)).toBe("ready");
    expect(await driver.probeHealth(target, { timeoutMs: 60_000 })).toBe("healthy");
    expect(await driver.probeRequest(target)).toBe("ok");
    expect(await driver.probeRequest({ ...target, mode: "embedding" })).toBe("ok");
    expect(await driver.probeRequest({ ...target, mode: "rerank" })).toBe("ok");
    expect(await driver.readContextPerSlot?.(target)).toBe(2048);
    expect(await readStatus(target)).toMatchObject({ models: [{ loaded: true }] });

    const [name = ""] = readdirSync(join(folder.root, "daemons"));
    const base = join(folder.root, "omlx", name);
    expect(JSON.parse(readFileSync(join(base, "model_settings.json"), "utf8"))).toEqual({
      version: 1,
      models: {
        [target.modelAlias ?? ""]: {
          is_pinned: true,
          max_context_window: 2048,
          turboquant_kv_enabled: true,
          turboquant_kv_bits: 6,
        },
      },
    });
    const placed = join(base, "models", target.modelAlias ?? "", "model.safetensors");
    expect(statSync(placed).ino).toBe(statSync(join(model.path, "model.safetensors")).ino);
    // The key is for the agent's user alone, and in no argument.
    const keyFile = join(folder.root, "omlx", "key");
    expect(statSync(keyFile).mode & 0o777).toBe(0o600);
    const argv = readFileSync(join(folder.root, "daemons", name, "engine.json"), "utf8");
    expect(argv).not.toContain(readFileSync(keyFile, "utf8").trim());
    expect(argv).toContain("--max-concurrent-requests");
    expect((await fetch(`http://127.0.0.1:${target.port}/v1/models`)).status).toBe(401);

    // The server counts once, without the models that its replicas claim.
    await measured(instances, 5 * 2 ** 20);

    expect(await stop(instance)).toMatchObject({ exit: { code: 0 } });
    await vi.waitFor(() => expect(isLiving(pidIn(join(folder.root, "daemons", name)))).toBe(false), SOON);
    expect(readdirSync(join(base, "models"))).toEqual([]);
    expect(await isFree(target.port, ["127.0.0.1"])).toBe(true);
  });

  test("two services on one model share it; two models of one name are separate; other server settings get a separate server", async () => {
    await using folder = runFolder();
    installOmlx(folder.root);
    const { driver, placeOf } = omlxAgent(folder);
    const [first, second] = [tinyMlx(folder, "one/qwen"), tinyMlx(folder, "two/qwen")];
    const one = await driver.open(placeOf("a"), launch(first));
    const same = await driver.open(placeOf("b"), launch(first));
    const other = await driver.open(placeOf("c"), launch(second));
    const wide = await driver.open(placeOf("d"), launch(first, { parallelSlots: 4 }));
    for (const instance of [one, same, other, wide]) await untilState(instance, "running");
    expect(same.target).toEqual(one.target);
    expect(other.target.port).toBe(one.target.port);
    expect(other.target.modelAlias).not.toBe(one.target.modelAlias);
    expect(wide.target.port).not.toBe(one.target.port);

    await stop(same);
    expect(await driver.probeRequest(chat(one.target))).toBe("ok");
    one.killNow();
    await untilState(one, "gone");
    expect(await driver.probeHealth(chat(one.target))).toMatchObject({
      unhealthy: expect.stringContaining("no longer"),
    });
    expect(await driver.probeRequest(chat(other.target))).toBe("ok");
  });

  test("the next agent adopts running models, and stops an oMLX without references", async () => {
    await using folder = runFolder();
    installOmlx(folder.root);
    const before = omlxAgent(folder);
    const place = before.placeOf("a");
    const opened = await before.driver.open(place, launch(tinyMlx(folder)));
    await untilState(opened, "running");
    const record = JSON.parse(readFileSync(join(place.dir, "engine.json"), "utf8"));
    opened.close();

    const after = omlxAgent(folder);
    const adopted = await after.driver.adopt(after.placeOf("a"), { port: 1, service: "tiny", record });
    expect(adopted?.state()).toMatchObject({ at: "running", pid: expect.any(Number) });
    expect(adopted?.target).toEqual(opened.target);
    await after.instances.daemons.stopUnused(() => true);
    expect(await after.driver.probeRequest(chat(adopted?.target ?? opened.target))).toBe("ok");
    adopted?.close();

    const last = omlxAgent(folder);
    await last.instances.daemons.stopUnused(() => true);
    await vi.waitFor(async () => expect(await isFree(opened.target.port, ["127.0.0.1"])).toBe(true), SOON);
  });

  test("the next agent keeps a server while a replica's record is unread, and stops one without references after that", async () => {
    await using folder = runFolder();
    installOmlx(folder.root);
    const before = omlxAgent(folder);
    const opened = await before.driver.open(before.placeOf("a"), launch(tinyMlx(folder)));
    await untilState(opened, "running");
    const record = JSON.parse(readFileSync(join(before.placeOf("a").dir, "engine.json"), "utf8"));
    opened.close();

    const { driver, instances, placeOf } = omlxAgent(folder);
    let isAllKnown = false;
    await instances.daemons.stopUnused(() => isAllKnown);
    await instances.daemons.measure();
    const adopted = await driver.adopt(placeOf("a"), { port: 1, service: "tiny", record });
    isAllKnown = true;
    await instances.daemons.measure();
    // One that is being stopped takes no model any more.
    const other = await driver.open(placeOf("b"), launch(tinyMlx(folder, "other")));
    await untilState(other, "running");
    expect(other.target.port).toBe(opened.target.port);
    for (const instance of [other, adopted]) instance?.killNow();
    await vi.waitFor(async () => expect(await isFree(opened.target.port, ["127.0.0.1"])).toBe(true), SOON);
  });

  test("a server whose record of its port is lost is replaced, and not reported as hung", async () => {
    await using folder = runFolder();
    installOmlx(folder.root);
    const before = omlxAgent(folder);
    const opened = await before.driver.open(before.placeOf("a"), launch(tinyMlx(folder)));
    await untilState(opened, "running");
    const record = JSON.parse(readFileSync(join(before.placeOf("a").dir, "engine.json"), "utf8"));
    opened.close();
    const [name = ""] = readdirSync(join(folder.root, "daemons"));
    rmSync(join(folder.root, "daemons", name, "engine.json"));

    const { driver, instances, placeOf } = omlxAgent(folder);
    const adopted = await driver.adopt(placeOf("a"), { port: 1, service: "tiny", record });
    expect(adopted?.state()).toMatchObject({ at: "running" });
    await instances.daemons.stopUnused(() => true);
    if (adopted !== undefined) await untilState(adopted, "gone");
    adopted?.close();
    const again = await driver.open(placeOf("a"), launch(tinyMlx(folder)));
    await untilState(again, "running");
    expect(await driver.probeRequest(chat(again.target))).toBe("ok");
  });

  test("settings that oMLX cannot honor are rejected before a server is started", async () => {
    await using folder = runFolder();
    installOmlx(folder.root);
    const cache = join(folder.root, "cache");
    mkdirSync(cache);
    const { driver, placeOf } = omlxAgent(folder, { cacheRoots: [cache] });
    const model = tinyMlx(folder);
    const open = (engine: object) => driver.open(placeOf("a"), launch(model, engine));
    await expect(open({ extraArgs: ["--mcp-config", "x"] })).rejects.toMatchObject({
      code: "ExtraArgRefused",
    });
    await expect(open({ hotCacheMaxSize: "much" })).rejects.toMatchObject({ code: "EngineSettingsRefused" });
    await expect(open({ pagedSSDCacheDir: "/etc" })).rejects.toMatchObject({ code: "EngineSettingsRefused" });
    await expect(open({ pagedSSDCacheDir: join(cache, "none") })).rejects.toMatchObject({
      code: "SettingUnavailable",
      message: expect.stringContaining("does not exist"),
    });
    expect(existsSync(join(folder.root, "daemons"))).toBe(false);
    const paged = await open({
      pagedSSDCacheDir: cache,
      pagedSSDCacheMaxSize: "20GB",
      hotCacheMaxSize: "1GB",
    });
    await untilState(paged, "running");
  });

  test("the memory guard rejects requests above the agent's budget for this machine", async () => {
    await using folder = runFolder();
    const { path } = installOmlx(folder.root);
    const config = { programs: [path], cacheRoots: [] };
    const { driver, placeOf } = agentWith(folder, omlxEngine, config, {
      budgetBytes: 34 * 1024 ** 3,
    });
    const instance = await driver.open(placeOf("a"), launch(tinyMlx(folder)));
    await untilState(instance, "running");
    const [name = ""] = readdirSync(join(folder.root, "daemons"));
    const { argv } = JSON.parse(readFileSync(join(folder.root, "daemons", name, "engine.json"), "utf8"));
    expect(argv.join(" ")).toContain("--memory-guard aggressive --memory-guard-gb 40.0 ");
  });

  test("the oMLX process counts once: its models and their growing caches do not count in addition to their claims", async () => {
    await using folder = runFolder();
    const { path } = installOmlx(folder.root);
    const config = { programs: [path], cacheRoots: [] };
    let footprint: number | undefined;
    let readings = 0;
    let laterMs = 0;
    const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + laterMs };
    const footprintBytes = async (): Promise<number | undefined> => {
      readings += 1;
      return footprint;
    };
    const machine = { footprintBytes, clock };
    const { driver, placeOf, instances } = agentWith(folder, omlxEngine, config, machine);
    const model = tinyMlx(folder);
    await untilState(await driver.open(placeOf("a"), launch(model)), "running");
    const weights = statSync(join(model.path, "model.safetensors")).size;
    // A figure that was not read, or that is less than what is loaded, says nothing.
    for (const unread of [undefined, 1]) {
      footprint = unread;
      laterMs += 60_000;
      await instances.daemons.measure();
      expect(instances.daemons.unclaimedBytes()).toBe(0);
    }
    readings = 0;
    for (const seen of [300e6, 900e6, 250e6]) {
      footprint = seen;
      laterMs += 60_000;
      await instances.daemons.measure();
      expect(instances.daemons.unclaimedBytes()).toBe(Math.min(seen, 300e6) - weights);
    }
    // A Mac starts a child for each reading.
    expect(readings).toBe(3);
    for (let passes = 0; passes < 10; passes += 1) await instances.daemons.measure();
    expect(readings).toBe(3);
    await untilState(await driver.open(placeOf("b"), launch(tinyMlx(folder, "other"))), "running");
    await instances.daemons.measure();
    expect(readings).toBe(4);
  });

  test("an oMLX version that is unknown or lacks required flags is reported, and an upgrade is detected", async () => {
    await using folder = runFolder();
    const program = installOmlx(folder.root);
    const { driver, placeOf } = omlxAgent(folder);
    const instance = await driver.open(placeOf("a"), launch(tinyMlx(folder)));
    await untilState(instance, "running");
    const script = (text: string) => writeFileSync(program.path, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    script("[ $1 = --version ] && echo nightly");
    await expect(driver.detect()).rejects.toMatchObject({
      code: "RuntimeBroken",
      message: expect.stringContaining("names no version"),
    });
    script(
      '[ $1 = --version ] && echo 0.3.2 || echo "--model-dir DIR --max-process-memory GB --base-path P"',
    );
    await expect(driver.detect()).rejects.toMatchObject({
      code: "RuntimeTooOld",
      message: expect.stringMatching(/0\.3\.2.*--memory-guard/),
    });
    installOmlx(folder.root).play({ version: "0.8.1" });
    expect(await driver.detect()).toMatchObject({ version: "0.8.1" });
    expect(await driver.probeRequest(chat(instance.target))).toBe("ok");
  });
});

describe("an oMLX that was found", () => {
  test("a found oMLX stays unchanged: models and settings of other clients stay, and only the agent's models are unloaded", async () => {
    await using folder = runFolder();
    const theirs = await foundOmlx(folder, installOmlx(folder.root));
    await using _ = theirs;
    const { modelDir, basePath, address } = theirs.config;
    const file = join(basePath, "model_settings.json");
    const settings = { version: 1, models: { mine: { model_alias: "theirs", ttl_seconds: 600 } } };
    writeFileSync(file, JSON.stringify(settings));
    writeTinyMlx(join(modelDir, "mine"));
    await theirs.restart();
    await theirs.call("/v1/models/mine/load", {});
    const { driver, placeOf, instances } = omlxAgent(folder, theirs.config);
    expect(await driver.detect()).toEqual({ name: "omlx", version: "0.7.0", path: `http://${address}` });
    await instances.daemons.measure();
    const foreign = instances.daemons.unclaimedBytes();
    expect(foreign).toBe(statSync(join(modelDir, "mine", "model.safetensors")).size);

    const instance = await driver.open(placeOf("a"), launch(tinyMlx(folder)));
    await untilState(instance, "running");
    expect(await driver.probeRequest(chat(instance.target))).toBe("ok");
    expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject(settings);
    await instances.daemons.measure();
    expect(instances.daemons.unclaimedBytes()).toBe(foreign);

    await stop(instance);
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(settings);
    expect(readdirSync(modelDir)).toEqual(["mine"]);
    expect(await theirs.loaded()).toEqual(["mine"]);
    expect(isLiving(theirs.pid)).toBe(true);

    // Memory of one that is hung stays taken; one that its owner stopped has given it back.
    await freeze(theirs.pid);
    await instances.daemons.measure();
    expect(instances.daemons.unclaimedBytes()).toBe(foreign);
    process.kill(theirs.pid, "SIGCONT");
    await theirs.stop();
    await instances.daemons.measure();
    expect(instances.daemons.unclaimedBytes()).toBe(0);
  });

  test("a found oMLX that hangs, is restarted or exits is never signaled, and does not block its replicas", async () => {
    await using folder = runFolder();
    await using theirs = await foundOmlx(folder, installOmlx(folder.root));
    const { driver, placeOf } = omlxAgent(folder, theirs.config);
    const model = tinyMlx(folder);
    const instance = await driver.open(placeOf("a"), launch(model));
    await untilState(instance, "running");
    await freeze(theirs.pid);
    instance.killNow();
    await untilState(instance, "gone");
    process.kill(theirs.pid, "SIGCONT");
    expect(isLiving(theirs.pid)).toBe(true);

    const again = await driver.open(placeOf("a"), launch(model));
    await untilState(again, "running");
    await theirs.stop();
    expect(await driver.probeHealth(chat(again.target))).toMatchObject({
      unhealthy: expect.stringContaining("nothing is listening"),
    });
    await expect(driver.detect()).rejects.toMatchObject({
      code: "RuntimeBroken",
      message: expect.stringContaining("no oMLX answers"),
    });
    again.killNow();
    await untilState(again, "gone");
    // Nothing of ours is preloaded when it starts again.
    await theirs.restart();
    expect(await theirs.loaded()).toEqual([]);
  });

  test("the host reports a wrong key, and models that are still being preloaded", async () => {
    await using folder = runFolder();
    const program = installOmlx(folder.root);
    await using theirs = await foundOmlx(folder, program);
    const wrong = join(folder.root, "wrong");
    writeFileSync(wrong, "other-key");
    const { driver } = omlxAgent(folder, { ...theirs.config, keyFile: wrong });
    await expect(driver.detect()).rejects.toMatchObject({
      code: "RuntimeBroken",
      message: expect.stringMatching(/refuses the agent: HTTP 401/),
    });
    program.play({ isPreloading: true });
    await expect(driver.detect()).rejects.toMatchObject({
      message: expect.stringContaining("still loading"),
    });
  });

  test("the agent does not overwrite unreadable settings of other clients", async () => {
    await using folder = runFolder();
    await using theirs = await foundOmlx(folder, installOmlx(folder.root));
    const { driver, placeOf } = omlxAgent(folder, theirs.config);
    const instance = await driver.open(placeOf("a"), launch(tinyMlx(folder)));
    await untilState(instance, "running");
    await theirs.stop();
    const file = join(theirs.config.basePath, "model_settings.json");
    writeFileSync(file, "{ half");
    instance.killNow();
    await untilState(instance, "gone");
    expect(readFileSync(file, "utf8")).toBe("{ half");
    expect(readdirSync(theirs.config.modelDir)).toEqual([]);
  });

  test("a found oMLX that was reset to loopback, because it has no key, is used without one", async () => {
    await using folder = runFolder();
    await using theirs = await foundOmlx(folder, installOmlx(folder.root), { savedHost: "0.0.0.0" });
    const saved = JSON.parse(readFileSync(join(theirs.config.basePath, "settings.json"), "utf8"));
    expect(saved).toMatchObject({ host: "127.0.0.1" });
    const { driver, placeOf } = omlxAgent(folder, theirs.config);
    const instance = await driver.open(placeOf("a"), launch(tinyMlx(folder)));
    await untilState(instance, "running");
    expect(await driver.probeRequest(chat(instance.target))).toBe("ok");
  });
});
