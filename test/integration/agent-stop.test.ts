/** An agent process stopped by signals: it leaves its engines running, or drains them all where it is configured to. */
import { existsSync, readdirSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeUnless } from "../bed/describe-unless.ts";
import { livingEngines } from "../bed/engines.ts";
import { processesNaming } from "../bed/leftovers.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import type { Part } from "../bed/part.ts";
import { question } from "../bed/services.ts";
import { isAlive } from "../bed/signal.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

const MINUTE = 60_000;
const NAMES = ["left", "right"] as const;
/** A signal sooner than this after the first is the same request. */
const SECOND_REQUEST_MS = 1_000;

interface Engine {
  readonly pid: number;
  readonly port: number;
}

describeUnless(whyNoNodeNetwork(), "an agent that is asked to stop", () => {
  let on: System;

  beforeAll(async () => {
    on = await startSystem();
    const endless = { endless: true, layers: 4, embeddingSize: 256 };
    await writeTinyGguf(path.join(on.farm.modelsDir, "endless.gguf"), endless);
    // Room for an answer that outlasts every test.
    const spec = { contextSize: 131_072, rollout: { drainSeconds: 3_600 } };
    for (const name of NAMES) await on.services.applyService(name, "endless.gguf", spec);
    await allReady();
  });

  afterAll(() => on?.[Symbol.asyncDispose]());

  const allReady = () => Promise.all(NAMES.map((name) => on.services.untilReady(name)));
  const enginesNow = async (): Promise<readonly Engine[]> =>
    (await Promise.all(NAMES.map((name) => on.services.replicaOf(name)))).map(({ status }) => status);

  /** Resolves once the stream has begun; `end` says whether all of it arrived. */
  async function stream(
    { port }: Engine,
    tokens: number,
  ): Promise<{ readonly end: Promise<"whole" | "cut"> }> {
    const answer = await fetch(`http://${on.network.hostAddress}:${port}/v1/chat/completions`, {
      method: "POST",
      body: question({ max_tokens: tokens, stream: true }),
    });
    const end = answer.text().then(
      (text) => (text.trimEnd().endsWith("data: [DONE]") ? ("whole" as const) : ("cut" as const)),
      () => "cut" as const,
    );
    return { end };
  }

  const untilEnded = (part: Part) => until(() => expect(part.exitCode()).toBe(0));

  async function expectNothingLeft(engines: readonly Engine[]): Promise<void> {
    expect(engines.map(({ pid }) => isAlive(pid))).toEqual([false, false]);
    await until(() => expect(processesNaming(on.farm.stateDir)).toEqual([]));
    expect(await Promise.all(engines.map(({ port }) => isListenedOn(on.network.hostAddress, port)))).toEqual([
      false,
      false,
    ]);
    const folder = path.join(on.farm.stateDir, "engines");
    const left = readdirSync(folder).filter((uid) => existsSync(path.join(folder, uid, "engine.json")));
    expect(left).toEqual([]);
  }

  it("leaves its engines running, says so, and the next takes them over", async () => {
    const before = await enginesNow();
    await on.farm.agent().kill("SIGTERM");
    expect(on.farm.agent().exitCode()).toBe(0);
    const said = on.farm
      .agent()
      .log()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    const keeps = { engines: 2, msg: expect.stringContaining("2 engines keep running") };
    expect(said).toContainEqual(expect.objectContaining(keeps));
    expect(before.map(({ pid }) => isAlive(pid))).toEqual([true, true]);
    expect(await (await stream(before[0] as Engine, 5)).end).toBe("whole");
    on.farm.restartAgent({ args: ["--stop-engines"] });
    await until(() =>
      expect(
        on.farm
          .agent()
          .log()
          .match(/agent started/g),
      ).toHaveLength(2),
    );
    await allReady();
    expect((await enginesNow()).map(({ pid }) => pid)).toEqual(before.map(({ pid }) => pid));
  });

  it("with --stop-engines drains them all: a stream finishes, endpoints go first, nothing is left", async () => {
    const engines = await enginesNow();
    const order: string[] = [];
    // Frozen until the withdrawals have been seen: on any machine the streams are still on their way then.
    const streams = await Promise.all(
      engines.map(async (engine) => {
        const begun = await stream(engine, 3_000);
        process.kill(engine.pid, "SIGSTOP");
        return begun;
      }),
    );
    const streamed = Promise.all(
      streams.map(async ({ end }) => {
        order.push(`stream ${await end}`);
      }),
    );
    process.kill(on.farm.agent().pid, "SIGTERM");
    const withdrawn = NAMES.map(async (name) => {
      await until(async () => expect(await on.services.sliceIsReady(name)).toBe(false));
      order.push("withdrawn");
    });
    const ended = engines.map(async ({ pid }) => {
      await until(() => expect(isAlive(pid)).toBe(false));
      order.push("ended");
    });
    await Promise.all(withdrawn);
    for (const { pid } of engines) process.kill(pid, "SIGCONT");
    await Promise.all([streamed, ...ended]);
    await untilEnded(on.farm.agent());
    const phases = ["withdrawn", "withdrawn", "stream whole", "stream whole", "ended", "ended"];
    expect([...order].sort((a, b) => rank(a) - rank(b))).toEqual(phases);
    expect(order.slice(0, 2)).toEqual(["withdrawn", "withdrawn"]);
    await expectNothingLeft(engines);
    for (const name of NAMES) {
      const { status } = await on.services.replicaOf(name);
      expect(status).toMatchObject({ phase: "Stopped", reason: "AgentStopped" });
    }
  });

  it("a second TERM brings their end nearer, and a TERM within a second of the first does not", async () => {
    on.farm.restartAgent({ args: ["--stop-engines"] });
    await allReady();
    const engines = await enginesNow();
    const streams = await Promise.all(engines.map((engine) => stream(engine, 120_000)));
    const { pid } = on.farm.agent();
    const firstAt = performance.now();
    process.kill(pid, "SIGTERM");
    process.kill(pid, "SIGTERM");
    await until(async () => {
      const all = await Promise.all(NAMES.map((name) => on.services.replicaOf(name)));
      expect(all.map(({ status }) => status.reason)).toEqual(["AwaitingQuiet", "AwaitingQuiet"]);
    });
    // The drain has begun and would take an hour.
    expect(performance.now() - firstAt).toBeGreaterThan(SECOND_REQUEST_MS);
    expect(engines.map((engine) => isAlive(engine.pid))).toEqual([true, true]);
    const secondAt = performance.now();
    process.kill(pid, "SIGTERM");
    await untilEnded(on.farm.agent());
    expect(performance.now() - secondAt).toBeLessThan(MINUTE);
    expect(await Promise.all(streams.map(({ end }) => end))).toEqual(["cut", "cut"]);
    await expectNothingLeft(engines);
    expect(on.farm.agent().log()).toContain("second request to stop");
    expect(livingEngines(on.farm.stateDir).size).toBe(0);
  });
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
