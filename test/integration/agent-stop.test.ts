/** An agent that is told to end, as a process and by signals: it leaves its engines, or drains them all where it was told to. */
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type PrivateCluster, startCluster } from "../cluster/cluster.ts";
import { canRunNodeNetwork, type NodeNetwork, startNodeNetwork } from "../cluster/node-network.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { isAlive, livingEngines } from "../system/engines.ts";
import { type Farm, startFarm } from "../system/farm.ts";
import { processesNaming } from "../system/leftovers.ts";
import type { Part } from "../system/part.ts";
import { question, type Services, servicesOf } from "./services.ts";

const can = canRunNodeNetwork();
const why = can.ok ? "" : ` (skipped: ${can.why})`;
const MINUTE = 60_000;
const within = { timeout: MINUTE, interval: 20 };
const NAMES = ["left", "right"] as const;
/** A signal sooner than this after the first is the same request. */
const SECOND_REQUEST_MS = 1_000;

interface Engine {
  readonly pid: number;
  readonly port: number;
}

describe.skipIf(!can.ok)(`an agent that is told to end${why}`, () => {
  let cluster: PrivateCluster;
  let network: NodeNetwork;
  let farm: Farm;
  let services: Services;

  beforeAll(async () => {
    cluster = await startCluster({ controllerManager: true });
    network = await startNodeNetwork(cluster);
    farm = await startFarm({ kubeconfig: cluster.kubeconfig, address: network.hostAddress });
    services = servicesOf(farm, network);
    mkdirSync(farm.modelsDir, { recursive: true });
    const endless = { endless: true, layers: 4, embeddingSize: 256 };
    await writeTinyGguf(path.join(farm.modelsDir, "endless.gguf"), endless);
    // Room for an answer that outlasts every test.
    const spec = { contextSize: 131_072, rollout: { drainSeconds: 3_600 } };
    for (const name of NAMES) await services.applyService(name, "endless.gguf", spec);
    await allReady();
  }, 2 * MINUTE);

  afterAll(async () => {
    await farm?.[Symbol.asyncDispose]();
    await network?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  }, MINUTE);

  const allReady = () => Promise.all(NAMES.map((name) => services.untilReady(name)));
  const enginesNow = async (): Promise<readonly Engine[]> =>
    (await Promise.all(NAMES.map((name) => services.replicaOf(name)))).map(({ status }) => status);

  /** Begun when it resolves; `end` tells whether all of it came. */
  async function stream(
    { port }: Engine,
    tokens: number,
  ): Promise<{ readonly end: Promise<"whole" | "cut"> }> {
    const answer = await fetch(`http://${network.hostAddress}:${port}/v1/chat/completions`, {
      method: "POST",
      body: question({ max_tokens: tokens, stream: true }),
    });
    const end = answer.text().then(
      (text) => (text.trimEnd().endsWith("data: [DONE]") ? ("whole" as const) : ("cut" as const)),
      () => "cut" as const,
    );
    return { end };
  }

  const untilEnded = (part: Part) => vi.waitFor(() => expect(part.exitCode()).toBe(0), within);

  async function expectNothingLeft(engines: readonly Engine[]): Promise<void> {
    expect(engines.map(({ pid }) => isAlive(pid))).toEqual([false, false]);
    expect(processesNaming(farm.stateDir)).toEqual([]);
    expect(await Promise.all(engines.map(({ port }) => isListenedOn(network.hostAddress, port)))).toEqual([
      false,
      false,
    ]);
    const folder = path.join(farm.stateDir, "engines");
    const left = readdirSync(folder).filter((uid) => existsSync(path.join(folder, uid, "engine.json")));
    expect(left).toEqual([]);
  }

  it("leaves its engines running, says so, and the next takes them over", async () => {
    const before = await enginesNow();
    await farm.agent().kill("SIGTERM");
    expect(farm.agent().exitCode()).toBe(0);
    const said = farm
      .agent()
      .log()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(said.at(-2)).toMatchObject({ engines: 2, msg: expect.stringContaining("its engines run on") });
    expect(before.map(({ pid }) => isAlive(pid))).toEqual([true, true]);
    expect(await (await stream(before[0] as Engine, 5)).end).toBe("whole");
    farm.restartAgent(["--stop-engines"]);
    await vi.waitFor(
      () =>
        expect(
          farm
            .agent()
            .log()
            .match(/agent started/g),
        ).toHaveLength(2),
      within,
    );
    await allReady();
    expect((await enginesNow()).map(({ pid }) => pid)).toEqual(before.map(({ pid }) => pid));
  });

  it(
    "with --stop-engines drains them all: a stream finishes, endpoints go first, nothing is left",
    async () => {
      const engines = await enginesNow();
      const order: string[] = [];
      const streams = await Promise.all(engines.map((engine) => stream(engine, 2_000)));
      const streamed = Promise.all(
        streams.map(async ({ end }) => {
          order.push(`stream ${await end}`);
        }),
      );
      process.kill(farm.agent().pid, "SIGTERM");
      const withdrawn = NAMES.map(async (name) => {
        await vi.waitFor(async () => expect(await services.sliceIsReady(name)).toBe(false), within);
        order.push("withdrawn");
      });
      const ended = engines.map(async ({ pid }) => {
        await vi.waitFor(() => expect(isAlive(pid)).toBe(false), within);
        order.push("ended");
      });
      await Promise.all([streamed, ...withdrawn, ...ended]);
      await untilEnded(farm.agent());
      const phases = ["withdrawn", "withdrawn", "stream whole", "stream whole", "ended", "ended"];
      expect([...order].sort((a, b) => rank(a) - rank(b))).toEqual(phases);
      expect(order.slice(0, 2)).toEqual(["withdrawn", "withdrawn"]);
      expect(order.at(-1)).toBe("ended");
      await expectNothingLeft(engines);
      for (const name of NAMES) {
        const { status } = await services.replicaOf(name);
        expect(status).toMatchObject({ phase: "Stopped", reason: "AgentStopped" });
      }
    },
    2 * MINUTE,
  );

  it(
    "a second TERM brings their end nearer, and a TERM within a second of the first does not",
    async () => {
      farm.restartAgent(["--stop-engines"]);
      await allReady();
      const engines = await enginesNow();
      const streams = await Promise.all(engines.map((engine) => stream(engine, 120_000)));
      const { pid } = farm.agent();
      const firstAt = performance.now();
      process.kill(pid, "SIGTERM");
      process.kill(pid, "SIGTERM");
      await vi.waitFor(async () => {
        const all = await Promise.all(NAMES.map((name) => services.replicaOf(name)));
        expect(all.map(({ status }) => status.reason)).toEqual(["AwaitingQuiet", "AwaitingQuiet"]);
      }, within);
      // The drain has begun and would go on for an hour.
      expect(performance.now() - firstAt).toBeGreaterThan(SECOND_REQUEST_MS);
      expect(engines.map((engine) => isAlive(engine.pid))).toEqual([true, true]);
      const secondAt = performance.now();
      process.kill(pid, "SIGTERM");
      await untilEnded(farm.agent());
      expect(performance.now() - secondAt).toBeLessThan(15_000);
      expect(await Promise.all(streams.map(({ end }) => end))).toEqual(["cut", "cut"]);
      await expectNothingLeft(engines);
      expect(farm.agent().log()).toContain("asked again to end");
      expect(livingEngines(farm.stateDir).size).toBe(0);
    },
    2 * MINUTE,
  );
});

function rank(step: string): number {
  return ["withdrawn", "stream whole", "stream cut", "ended"].indexOf(step);
}

function isListenedOn(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, host)
      .once("connect", () => {
        socket.destroy();
        resolve(true);
      })
      .once("error", () => resolve(false));
  });
}
