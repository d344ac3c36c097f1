/**
 * What users and accidents do to a running engine behind its agent's back: never two engines, never a stranger's harm, and it serves again.
 *
 * CPU: a whole system, and a new agent after each of nine kinds of damage.
 */
import { spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { describeUnless } from "../bed/describe-unless.ts";
import { pidsNaming } from "../bed/leftovers.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { isAlive } from "../bed/signal.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

const MINUTE = 60_000;
describeUnless(whyNoNodeNetwork(), "an engine that is tampered with", () => {
  let on: System;

  beforeAll(async () => {
    const engineLogs = { maxSize: "64Ki", keep: 2 };
    on = await startSystem({ agents: [{ config: { engineLogs, disk: { reserve: 0 } } }] });
    await writeTinyGguf(path.join(on.farm.modelsDir, "chat.gguf"));
    await on.services.applyService("chat", "chat.gguf", {});
    await on.services.untilReady("chat");
  });

  afterAll(() => on?.[Symbol.asyncDispose]());

  afterEach(async () => {
    await untilServing();
    expect((await on.services.chat("chat", { max_tokens: 2 })).choices).toHaveLength(1);
    expect(on.farm.agent().isRunning()).toBe(true);
  });

  /** By /proc: the engines of the one model, without their shims. */
  function engines(): readonly number[] {
    const found = pidsNaming(path.join(on.farm.modelsDir, "chat.gguf"), "--port", "/shim ");
    expect(found.length).toBeLessThan(2);
    return found;
  }

  const untilServing = () =>
    until(
      async () => {
        const { status } = await on.services.replicaOf("chat");
        expect(status.phase).toBe("Ready");
        expect(engines()).toEqual([status.pid]);
        return status as { readonly pid: number; readonly restarts: number };
      },
      { everyMs: 200 },
    );

  async function runFolder(): Promise<string> {
    return path.join(on.farm.stateDir, "engines", (await on.services.replicaOf("chat")).metadata.uid);
  }

  /** Kills the agent, does something to the run folder, and starts the next agent. */
  async function whileAway(damage: (dir: string) => void): Promise<void> {
    const dir = await runFolder();
    await on.farm.agent().kill("SIGKILL");
    damage(dir);
    const starts =
      on.farm
        .agent()
        .log()
        .match(/agent started/g)?.length ?? 0;
    on.farm.restartAgent();
    await until(() => {
      engines();
      expect(
        on.farm
          .agent()
          .log()
          .match(/agent started/g),
      ).toHaveLength(starts + 1);
    });
  }

  it(
    "serves on when its shim is killed, is adopted, and its end is seen",
    async () => {
      const { pid, restarts } = await untilServing();
      const dir = await runFolder();
      const shim = Number.parseInt(readFileSync(path.join(dir, "session"), "utf8"), 10);
      process.kill(shim, "SIGKILL");
      await until(() => expect(isAlive(shim)).toBe(false));
      expect((await on.services.chat("chat", { max_tokens: 2 })).choices).toHaveLength(1);
      await whileAway(() => {});
      expect(await untilServing()).toEqual(expect.objectContaining({ pid, restarts }));
      process.kill(pid, "SIGKILL");
      await until(async () => expect((await untilServing()).restarts).toBe(restarts + 1));
    },
    5 * MINUTE,
  );

  it(
    "is replaced when its pid belongs to a stranger now, who is left alone",
    async () => {
      const { pid } = await untilServing();
      const stranger = spawn("sleep", ["600"], { stdio: "ignore" });
      try {
        await whileAway((dir) => {
          const session = readFileSync(path.join(dir, "session"), "utf8");
          process.kill(Number.parseInt(session, 10), "SIGKILL");
          process.kill(pid, "SIGKILL");
          // As after a reboot that gave the numbers away: the start times are those of the engine and its shim.
          for (const name of ["session", "pid"]) {
            const mark = readFileSync(path.join(dir, name), "utf8").replace(/^\d+/, String(stranger.pid));
            writeFileSync(path.join(dir, name), mark);
          }
        });
        expect((await untilServing()).pid).not.toBe(stranger.pid);
        expect(stranger.exitCode ?? stranger.signalCode).toBeNull();
      } finally {
        stranger.kill("SIGKILL");
      }
    },
    5 * MINUTE,
  );

  const record = (dir: string): Record<string, unknown> =>
    JSON.parse(readFileSync(path.join(dir, "engine.json"), "utf8"));
  const write = (dir: string, name: string, text: string) => writeFileSync(path.join(dir, name), text);
  const damages = [
    {
      name: "was written by the first version",
      isKept: true,
      damage: (dir: string) => {
        const { readyAtMs, contextPerSlot, contents, stop, ...first } = record(dir);
        write(dir, "engine.json", JSON.stringify(first));
        rmSync(path.join(dir, "history.json"), { force: true });
      },
    },
    {
      name: "was written by a later version",
      isKept: false,
      damage: (dir: string) => write(dir, "engine.json", JSON.stringify({ ...record(dir), version: 99 })),
    },
    {
      name: "holds half a record",
      isKept: false,
      damage: (dir: string) => write(dir, "engine.json", JSON.stringify(record(dir)).slice(0, 100)),
    },
    {
      name: "has lost the record and the FIFOs",
      isKept: false,
      damage: (dir: string) => {
        for (const name of ["engine.json", "main", "alive"]) rmSync(path.join(dir, name));
      },
    },
    {
      name: "has lost its pid",
      isKept: false,
      damage: (dir: string) => rmSync(path.join(dir, "pid")),
    },
    {
      name: "is gone",
      isKept: false,
      damage: (dir: string) => rmSync(dir, { recursive: true }),
    },
  ];
  it.each(damages)(
    "whose run folder $name never gets a second one beside it; kept: $isKept",
    async ({ isKept, damage }) => {
      const { pid } = await untilServing();
      await whileAway(damage);
      await until(async () => expect((await untilServing()).pid === pid).toBe(isKept));
    },
    6 * MINUTE,
  );

  it(
    "serves on when its run folder is removed under a living agent, is adopted, and its end is seen",
    async () => {
      const { pid, restarts } = await untilServing();
      const dir = await runFolder();
      rmSync(dir, { recursive: true, maxRetries: 10 });
      await until(() => expect(readFileSync(path.join(dir, "pid"), "utf8")).toContain(String(pid)));
      await until(() => expect(record(dir)).toMatchObject({ version: 1 }));
      expect(await untilServing()).toEqual(expect.objectContaining({ pid, restarts }));
      await whileAway(() => {});
      expect(await untilServing()).toEqual(expect.objectContaining({ pid, restarts }));
      process.kill(pid, "SIGKILL");
      await until(async () => expect((await untilServing()).restarts).toBe(restarts + 1));
    },
    6 * MINUTE,
  );

  it(
    "keeps its process when its log has grown to 10 GB: the log is cut in place",
    async () => {
      const { pid, restarts } = await untilServing();
      const log = path.join(await runFolder(), "log");
      truncateSync(log, 10e9);
      await until(() => expect(statSync(log).size).toBeLessThan(64 * 1024));
      // Truncated first, renamed then.
      await until(() => expect(statSync(`${log}.1`).size).toBeLessThan(1024 ** 2));
      expect(existsSync(`${log}.3`)).toBe(false);
      expect(await untilServing()).toEqual(expect.objectContaining({ pid, restarts }));
    },
    5 * MINUTE,
  );
});
