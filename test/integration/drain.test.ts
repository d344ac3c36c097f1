/**
 * Drains through a real kube-proxy, with clients on fresh connections and on kept ones, streamed and not: what they lose.
 *
 * CPU: a whole system with three hosts, and clients that ask without a pause while four services drain.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { livingEngines } from "../bed/engines.ts";
import { monotonicEpochMs } from "../bed/load/ask.ts";
import { allKinds, type Clients, lostOf, startClients } from "../bed/load/clients.ts";
import type { ClientOrder } from "../bed/load/protocol.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { pacedTokens } from "../bed/pace.ts";
import { NAMESPACE, question } from "../bed/services.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

const MINUTE = 60_000;
const PATIENT_QUIET_MS = 5_500;

describeUnless(whyNoNodeNetwork(), "a drain behind kube-proxy", () => {
  let on: System;

  beforeAll(async () => {
    const patient = { drain: { quietMs: PATIENT_QUIET_MS } };
    on = await startSystem({
      pace: true,
      agents: [{ hostName: "mac-1" }, { hostName: "mac-2" }, { hostName: "patient", config: patient }],
    });
    // Every answer has as many tokens as were asked for.
    const endless = { endless: true, layers: 10, embeddingSize: 256 };
    await writeTinyGguf(path.join(on.farm.modelsDir, "endless.gguf"), endless);
    await on.services.untilHostsReady();
  });

  afterAll(() => on?.[Symbol.asyncDispose]());

  /** On the two usual hosts; resolves when it is Ready. */
  async function serve(name: string, spec: object): Promise<void> {
    const placement = { hosts: ["mac-1", "mac-2"], spread: "Required" };
    const slots = { contextSize: 8_192, parallelSlots: 4 };
    const usual = { ...slots, rollout: { drainSeconds: 180 }, placement };
    await on.services.applyService(name, "endless.gguf", { ...usual, ...spec });
    await on.services.untilReady(name);
  }

  async function clientsOf(service: string, clients: readonly ClientOrder[]): Promise<Clients> {
    return startClients(on.network.namespace, {
      url: `http://${await on.services.clusterIp(service)}:8080`,
      clients,
    });
  }

  const replicas = (): Promise<readonly Replica[]> => on.farm.objects.list(INFERENCE_REPLICAS);
  const engines = () => on.farm.agents.flatMap(({ stateDir }) => [...livingEngines(stateDir).values()]);
  const scale = (name: string, count: number) => on.farm.objects.scale(NAMESPACE, `isvc/${name}`, count);
  const change = (name: string, spec: object) => on.farm.objects.patch(NAMESPACE, `isvc/${name}`, { spec });

  /** Only that many replicas and engines are left, none of them one that was there before if `isNew`. */
  const untilOnly = (count: number, old: readonly number[] = []) =>
    until(
      async () => {
        expect(engines()).toHaveLength(count);
        expect(engines().filter((pid) => old.includes(pid))).toEqual([]);
        expect(await replicas()).toHaveLength(count);
      },
      { everyMs: 200 },
    );

  /** When the one replica that goes was seen to go, and since when it goes, to the second before. */
  const untilDraining = () =>
    on.farm.objects.until(NAMESPACE, "irep", (all: readonly Replica[]) => {
      const going = all.filter(({ metadata }) => metadata.deletionTimestamp);
      expect(going).toHaveLength(1);
      return { seenAt: monotonicEpochMs(), since: Date.parse(going[0]?.metadata.deletionTimestamp ?? "") };
    });

  it(
    "of one of two replicas, and the update of the one that is left, lose nothing",
    async () => {
      await serve("chat", { replicas: 2 });
      // Two that stream all the time: whenever the withdrawal comes, a stream is on its way.
      const stream = {
        isKept: false,
        isStreamed: true,
        maxTokens: pacedTokens(1_200),
        pauseMs: [0, 0],
        retries: false,
      } as const;
      const streams = ["stream-1", "stream-2"].map((name) => ({ ...stream, name }));
      await using clients = await clientsOf("chat", [...allKinds(pacedTokens), ...streams]);
      await clients.untilEachAsked(1);
      await scale("chat", 1);
      await untilOnly(1);
      await clients.untilEachAsked(1);

      const old = engines();
      await change("chat", { contextSize: 16_384 });
      const { seenAt } = await untilDraining();
      await untilOnly(1, old);
      await clients.untilEachAsked(1);
      const asked = await clients.stop();
      expect(lostOf(asked)).toEqual([]);
      const isOnTheWay = asked.filter(({ startedAt, endedAt }) => startedAt < seenAt && endedAt > seenAt);
      expect(isOnTheWay.filter(({ isStreamed }) => isStreamed)).not.toEqual([]);
      expect(asked.filter(({ reset, isKept }) => reset !== undefined && !isKept)).toEqual([]);
    },
    6 * MINUTE,
  );

  it(
    "of the only replica finishes what is in flight and refuses what comes later",
    async () => {
      await using clients = await clientsOf("chat", allKinds(pacedTokens));
      await clients.untilEachAsked(1);
      const url = `http://${await on.services.clusterIp("chat")}:8080/v1/chat/completions`;
      const order: string[] = [];
      const drainNow = async () => {
        await scale("chat", 0);
        await untilDraining();
        order.push("draining");
      };
      let scaling: Promise<void> | undefined;
      const long = on.network
        .curlInside(
          ["-N", "-m", "200", url, "-d", question({ max_tokens: pacedTokens(3_500), stream: true })],
          {
            timeoutMs: 210_000,
            onStdout: () => {
              scaling ??= drainNow();
            },
          },
        )
        .finally(() => order.push("answered"));
      const askedAt = monotonicEpochMs();
      expect((await long).stdout.trimEnd()).toMatch(/data: \[DONE\]$/);
      await scaling;
      expect(order).toEqual(["draining", "answered"]);
      await untilOnly(0);
      const asked = await clients.stop();
      expect(lostOf(asked.filter(({ startedAt }) => startedAt < askedAt))).toEqual([]);
      for (const failure of lostOf(asked)) expect(failure).toContain("ECONNREFUSED");
      await on.farm.objects.remove(NAMESPACE, "isvc/chat");
    },
    6 * MINUTE,
  );

  it(
    "waits drainSeconds for a kept connection that never pauses, and then its last request is lost",
    async () => {
      const drainSeconds = 4;
      await serve("busy", { rollout: { drainSeconds } });
      // Few long requests: llama-server closes a connection after its hundredth request.
      const busy = {
        isKept: true,
        isStreamed: false,
        maxTokens: pacedTokens(400),
        pauseMs: [0, 0],
        retries: false,
      } as const;
      const fresh = { ...busy, isKept: false, maxTokens: 8, pauseMs: [50, 150] } as const;
      await using clients = await clientsOf("busy", [
        { ...busy, name: "busy-1" },
        { ...busy, name: "busy-2" },
        { ...busy, name: "busy-3" },
        { ...fresh, name: "fresh" },
      ]);
      await clients.untilEachAsked(1);
      const old = engines();
      await change("busy", { contextSize: 16_384 });
      const { since } = await untilDraining();
      await untilOnly(1, old);
      await clients.untilEachAsked(1);
      const asked = await clients.stop();
      const lost = asked.filter(({ failure }) => failure !== "");
      const losers = lost.map(({ client }) => client);
      // One that was between two questions at that very moment has lost nothing.
      expect(losers).not.toEqual([]);
      expect(new Set(losers).size).toBe(losers.length);
      expect(losers).not.toContain("fresh");
      for (const { endedAt } of lost) expect(endedAt - since).toBeGreaterThanOrEqual(drainSeconds * 1_000);
      await on.farm.objects.remove(NAMESPACE, "isvc/busy");
    },
    6 * MINUTE,
  );

  it(
    "with drain.quietMs of 5500 outlives every idle connection",
    async () => {
      await serve("patient", { placement: { hosts: ["patient"] } });
      const { port } = (await on.services.replicaOf("patient")).status;
      // llama-server closes what is idle for five seconds: one of the last half second is always there.
      using idle = openAgainAndAgain(port, on.network.hostAddress);
      const body = question({ max_tokens: 2 });
      const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n`;
      await scale("patient", 0);
      await on.services.sliceUntil("patient", false);
      const socket = idle.youngest();
      const closed = once(socket, "close");
      const askedAt = Date.now();
      socket.write(head + body);
      const [answer] = await once(socket, "data");
      expect(String(answer)).toContain("200 OK");
      await closed;
      await untilOnly(0);
      // By the agent's own log: this process may see the end of the connection late.
      const lines = on.farm.agents[2]?.part().log().split("\n") ?? [];
      const line = lines.findLast((one) => one.includes('"msg":"engine asked to stop"'));
      expect(Date.parse(JSON.parse(line ?? "{}").time) - askedAt).toBeGreaterThanOrEqual(PATIENT_QUIET_MS);
    },
    5 * MINUTE,
  );
});

/** A new idle connection every half second; those before it are ended. */
function openAgainAndAgain(port: number, host: string) {
  const open = (): Socket => connect(port, host).on("error", () => {});
  let current = open();
  const timer = setInterval(() => {
    const before = current;
    current = open();
    current.once("connect", () => before.destroy());
  }, 500);
  return {
    /** The last one, left to the caller. */
    youngest: (): Socket => {
      clearInterval(timer);
      return current;
    },
    [Symbol.dispose]: () => {
      clearInterval(timer);
      current.destroy();
    },
  };
}

interface Replica {
  readonly metadata: { readonly deletionTimestamp?: string };
}
