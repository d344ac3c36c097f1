/** The driver on the replayed oMLX, a program of its own: every way that its server fails. */
import { readdirSync, readFileSync, symlinkSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { isLiving, pidIn, runFolder } from "../../../src/supervise/fixtures/run.ts";
import { untilState } from "../../../test/fixtures/driver-agent.ts";
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
import type { Instance } from "../../instances/instance.ts";
import { identifyOmlx, loadLimitMs, omlxApi, readStatus } from "./api.ts";

const SOON = { timeout: 60_000, interval: 20 };

function pidOf(instance: Instance): number {
  const state = instance.state();
  return state.at === "running" ? (state.pid ?? 0) : 0;
}

describe("an oMLX that fails", () => {
  test("when oMLX is killed, each of its models ends with that reason, and its next start preloads none of them", async () => {
    await using folder = runFolder();
    installOmlx(folder.root);
    const { driver, placeOf } = omlxAgent(folder);
    const [first, second] = [tinyMlx(folder), tinyMlx(folder, "second")];
    const one = await driver.open(placeOf("a"), launch(first));
    const two = await driver.open(placeOf("b"), launch(second));
    for (const instance of [one, two]) await untilState(instance, "running");
    process.kill(pidOf(one), "SIGKILL");
    for (const instance of [one, two]) {
      const gone = await untilState(instance, "gone");
      const exit = gone.at === "gone" ? gone.exit : "unknown";
      expect(await driver.classifyExit(exit, "")).toMatchObject({
        code: "EngineKilled",
        message: expect.stringContaining("all its models"),
      });
      instance.close();
    }
    const again = await driver.open(placeOf("a"), launch(first));
    await untilState(again, "running");
    expect(await readStatus(again.target)).toMatchObject({ models: [{ id: one.target.modelAlias }] });
  });

  test.each([
    ["killed", "SIGKILL"],
    ["hung", "SIGSTOP"],
  ] as const)("%s in the middle of a load it starts again for the next", async (_, signal) => {
    await using folder = runFolder();
    const program = installOmlx(folder.root);
    const { driver, placeOf } = omlxAgent(folder);
    const model = tinyMlx(folder);
    program.play({ hangs: ["*"] });
    const first = await driver.open(placeOf("a"), launch(model));
    await vi.waitFor(async () => {
      expect(await readStatus(first.target)).toMatchObject({ models: [{ is_loading: true }] });
    }, SOON);
    const [daemon = ""] = readdirSync(join(folder.root, "daemons"));
    process.kill(pidIn(join(folder.root, "daemons", daemon)), signal);
    if (signal === "SIGSTOP") first.killNow();
    await untilState(first, "gone");
    first.close();
    program.play({});
    const again = await driver.open(placeOf("a"), launch(model));
    await untilState(again, "running");
    expect(await driver.probeRequest(chat(again.target))).toBe("ok");
  });

  test("an unload that fails is repeated while another model is served, and then its server is killed", async () => {
    await using folder = runFolder();
    const program = installOmlx(folder.root);
    const { driver, placeOf } = omlxAgent(folder);
    const one = await driver.open(placeOf("a"), launch(tinyMlx(folder)));
    const two = await driver.open(placeOf("b"), launch(tinyMlx(folder, "second")));
    for (const instance of [one, two]) await untilState(instance, "running");
    const pid = pidOf(one);
    const failures = async () => (await two.logTail(1 << 20)).split("Failed to unload").length - 1;
    program.play({ keeps: ["*"] });
    one.killNow();
    await vi.waitFor(async () => expect(await failures()).toBeGreaterThan(2), SOON);
    expect(one.state()).toMatchObject({ at: "running", ending: "killing" });
    expect(await driver.probeRequest(chat(two.target))).toBe("ok");
    program.play({});
    await untilState(one, "gone");
    one.close();

    program.play({ keeps: ["*"] });
    const again = await driver.open(placeOf("a"), launch(tinyMlx(folder)));
    await untilState(again, "running");
    for (const instance of [again, two]) instance.killNow();
    for (const instance of [again, two]) await untilState(instance, "gone");
    expect(isLiving(pid)).toBe(false);
  });

  test("a server that answers and never unloads a model is killed, although it serves another", async () => {
    await using folder = runFolder();
    const program = installOmlx(folder.root);
    const { driver, placeOf } = omlxAgent(folder);
    const one = await driver.open(placeOf("a"), launch(tinyMlx(folder)));
    const two = await driver.open(placeOf("b"), launch(tinyMlx(folder, "second")));
    for (const instance of [one, two]) await untilState(instance, "running");
    program.play({ keeps: ["*"] });
    one.killNow();
    for (const instance of [one, two])
      await vi.waitFor(() => expect(instance.state().at).toBe("gone"), { ...SOON, timeout: 40_000 });
  });

  test("a server that does not exit on SIGTERM, because it waits for a request, is killed", async () => {
    await using folder = runFolder();
    const program = installOmlx(folder.root);
    const { driver, placeOf } = omlxAgent(folder);
    const instance = await driver.open(placeOf("a"), launch(tinyMlx(folder)));
    await untilState(instance, "running");
    const pid = pidOf(instance);
    const [daemon = ""] = readdirSync(join(folder.root, "daemons"));
    const models = join(folder.root, "omlx", daemon, "models");
    writeTinyMlx(join(models, "foreign"));
    program.play({ hangs: ["foreign"] });
    const { port } = instance.target;
    const key = readFileSync(join(folder.root, "omlx", "key"), "utf8").trim();
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const post = (path: string, more = {}) =>
      fetch(`http://127.0.0.1:${port}${path}`, {
        method: "POST",
        body: "{}",
        headers: { ...headers, ...more },
      });
    const login = await fetch(`http://127.0.0.1:${port}/admin/api/login`, {
      method: "POST",
      body: JSON.stringify({ api_key: key }),
    });
    await post("/admin/api/reload", { cookie: login.headers.getSetCookie()[0]?.split(";")[0] ?? "" });
    const open = post("/v1/models/foreign/load").catch(() => "cut");
    await vi.waitFor(async () => {
      const status = await readStatus(instance.target);
      expect("models" in status && status.models.some(({ is_loading }) => is_loading)).toBe(true);
    }, SOON);
    await stop(instance);
    await vi.waitFor(() => expect(isLiving(pid)).toBe(false), SOON);
    expect(await open).toBe("cut");
  });

  test("a load that is busy or whose server still preloads is retried, without another engine", async () => {
    await using folder = runFolder();
    const program = installOmlx(folder.root);
    const { driver, placeOf } = omlxAgent(folder);
    program.play({ busy: ["*"], isPreloading: true });
    const instance = await driver.open(placeOf("a"), launch(tinyMlx(folder)));
    await vi.waitFor(async () => {
      expect(await readStatus(instance.target)).toMatchObject({ models: [{ loaded: false }] });
    }, SOON);
    expect(await identifyOmlx(instance.target)).toBe("loading");
    // The model is not there yet, and nothing says that the server is in trouble.
    expect(instance.state()).toEqual({ at: "starting", isLoading: true });
    program.play({});
    await untilState(instance, "running");
  });

  test.each([
    ["507", { ceiling: 10 }, "EngineOutOfMemory", /above the ceiling.*nothing was evicted/],
    ["500", { fails: { "*": "Model type llama9 not supported." } }, "EngineBadModel", /llama9/],
  ] as const)(
    "a load refused with %s ends its replica with what oMLX says, and no other",
    async (_, control, code, message) => {
      await using folder = runFolder();
      const program = installOmlx(folder.root);
      const { driver, placeOf } = omlxAgent(folder);
      const good = await driver.open(placeOf("good"), launch(tinyMlx(folder)));
      await untilState(good, "running");
      program.play(control);
      const bad = await driver.open(placeOf("bad"), launch(tinyMlx(folder, "bad")));
      expect(await untilState(bad, "gone")).toMatchObject({
        exit: { because: { code, message: expect.stringMatching(message) } },
      });
      bad.close();
      expect(await driver.probeRequest(chat(good.target))).toBe("ok");
    },
  );

  test("a load that hangs is aborted after its limit, which follows from oMLX's own estimate", async () => {
    expect(loadLimitMs(10e9, undefined)).toBe(50_000);
    expect(loadLimitMs(10e9, 0.304)).toBe(45_200);
    await using folder = runFolder();
    const program = installOmlx(folder.root);
    const { driver, placeOf } = omlxAgent(folder);
    const instance = await driver.open(placeOf("a"), launch(tinyMlx(folder)));
    await untilState(instance, "running");
    const { id } = { id: instance.target.modelAlias ?? "" };
    await stop(instance);
    await using theirs = await foundOmlx(folder, program);
    writeTinyMlx(join(theirs.config.modelDir, id));
    await theirs.restart();
    program.play({ hangs: ["*"] });
    const api = omlxApi(theirs.server, { forget: async () => {}, loadBaseMs: 300 });
    await expect(api.load(id, new AbortController().signal)).rejects.toMatchObject({
      code: "EngineNeverHealthy",
    });
  });

  test("an argument that the installed version does not accept ends the server with that reason", async () => {
    await using folder = runFolder();
    installOmlx(folder.root);
    const { driver, placeOf } = omlxAgent(folder);
    const engine = { extraArgs: ["--embedding-batch-size", "8", "--hot-cache-write-through", "odd"] };
    const instance = await driver.open(placeOf("a"), launch(tinyMlx(folder), engine));
    const gone = await untilState(instance, "gone");
    const exit = gone.at === "gone" ? gone.exit : "unknown";
    expect(exit).toMatchObject({ code: 2 });
    expect(await driver.classifyExit(exit, await instance.logTail(4_000))).toMatchObject({
      code: "EngineFlagRefused",
      message: expect.stringContaining("odd"),
    });
  });

  test("a server whose port another program took first exits with that reason, and the next start uses another port", async () => {
    await using folder = runFolder();
    const program = installOmlx(folder.root);
    const { driver, placeOf } = omlxAgent(folder);
    program.play({ isPortTaken: true });
    const model = tinyMlx(folder);
    const instance = await driver.open(placeOf("a"), launch(model));
    const gone = await untilState(instance, "gone");
    const exit = gone.at === "gone" ? gone.exit : "unknown";
    expect(await driver.classifyExit(exit, await instance.logTail(4_000))).toMatchObject({
      code: "EnginePortTaken",
    });
    instance.close();
    program.play({});
    await untilState(await driver.open(placeOf("a"), launch(model)), "running");
  });

  test("another oMLX, or another program, on the port is not taken for the agent's server", async () => {
    await using folder = runFolder();
    const program = installOmlx(folder.root);
    await using theirs = await foundOmlx(folder, program);
    writeTinyMlx(join(theirs.config.modelDir, "qwen"));
    await theirs.restart();
    const server = theirs.server;
    const forget = async () => {};
    await expect(omlxApi(server, { modelDir: "/ours/models", forget }).loaded()).rejects.toThrow(
      "another oMLX",
    );
    await expect(omlxApi(server, { forget }).loaded()).resolves.toEqual([]);
    // oMLX resolves its folders.
    const modelDir = join(folder.root, "link");
    symlinkSync(theirs.config.modelDir, modelDir);
    await expect(omlxApi(server, { modelDir, forget }).loaded()).resolves.toEqual([]);
    await expect(omlxApi(theirs.target, { forget }).loaded()).rejects.toThrow("401");
    const vllm = createServer((_, response) => response.end("{}")).listen(0, "127.0.0.1");
    await vi.waitFor(() => expect(vllm.listening).toBe(true), SOON);
    const { port } = vllm.address() as AddressInfo;
    expect(await identifyOmlx({ host: "127.0.0.1", port })).toBeUndefined();
    await new Promise((closed) => vllm.close(closed));
  });
});
