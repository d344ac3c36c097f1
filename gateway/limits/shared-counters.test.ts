/** Limits of several gateways, with a real Redis between them. */
import { expect, test, vi } from "vitest";
import type { KeyLimits } from "../../src/gateway/key.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { type RedisServer, startRedis, whyNoRedis } from "../../test/fixtures/redis-server.ts";
import { createLimits } from "../accounting.ts";
import { connectSharedCounters } from "./shared-counters.ts";

const NONE = { tokensIn: 0, tokensOut: 0, cached: 0, isEstimated: false };
const within = { timeout: 30_000, interval: 20 };

/** One gateway of two. A busy machine may answer late, which must not look like a failure of the server. */
function startGateway(url: string, answerMs = 20_000) {
  const lines: string[] = [];
  const note = (_data: object, message: string) => void lines.push(message);
  const log: Log = { ...quietLog, warn: note, info: note };
  const ending = new AbortController();
  const waits: number[] = [];
  const after: Clock["after"] = (delayMs, fire) => {
    waits.push(delayMs);
    return systemClock.after(delayMs, fire);
  };
  const shared = connectSharedCounters({ url, clock: { ...systemClock, after }, log, answerMs });
  const limits = createLimits({
    clock: systemClock,
    log,
    signal: ending.signal,
    gateways: () => 2,
    spent: () => ({ today: 0, thisMonth: 0 }),
    shared,
  });
  const ask = async (id: string, keyLimits: KeyLimits, ticket: string) => {
    const admission = await limits.admit({ id, limits: keyLimits }, ticket, systemClock.nowMs());
    return admission.at === "refused" ? admission.limit : admission.at;
  };
  const end = (ticket: string, tokensOut = 0) =>
    limits.ended(ticket, { ...NONE, tokensOut }, systemClock.nowMs());
  const { answered } = limits;
  const dispose = async () => {
    ending.abort();
    shared.close();
  };
  return { shared, lines, waits, ask, answered, end, [Symbol.asyncDispose]: dispose };
}

async function startTwo(redis: RedisServer, answerMs?: number) {
  const stack = new AsyncDisposableStack();
  const gateways = [startGateway(redis.url, answerMs), startGateway(redis.url, answerMs)] as const;
  for (const gateway of gateways) stack.use(gateway);
  for (const { shared } of gateways) await vi.waitFor(() => expect(shared.isAvailable()).toBe(true), within);
  const [first, second] = gateways;
  return { first, second, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

test.skipIf(whyNoRedis !== undefined)(
  "two gateways admit together what the key allows, and no more",
  async () => {
    await using redis = await startRedis();
    await using two = await startTwo(redis);
    const { first, second } = two;
    const many = { concurrentRequests: 5 };
    const tickets = Array.from({ length: 20 }, (_, index) => `t${index}`);
    const gatewayOf = (index: number) => (index % 2 === 0 ? first : second);
    const responses = await Promise.all(
      tickets.map((ticket, index) => gatewayOf(index).ask("a", many, ticket)),
    );
    expect(responses.filter((response) => response === "admitted")).toHaveLength(5);
    expect(new Set(responses)).toEqual(new Set(["admitted", "concurrentRequests"]));
    const admitted = responses.indexOf("admitted");
    gatewayOf(admitted).end(`t${admitted}`);
    await vi.waitFor(async () => expect(await second.ask("a", many, "next")).toBe("admitted"), within);
    expect(await first.ask("a", many, "more")).toBe("concurrentRequests");
    expect(await first.ask("b", many, "other-key")).toBe("admitted");
    second.answered("next");
    await vi.waitFor(async () => expect(await first.ask("a", many, "after")).toBe("admitted"), within);
  },
);

test.skipIf(whyNoRedis !== undefined)(
  "requests and tokens of both gateways are taken from one bucket",
  async () => {
    await using redis = await startRedis();
    await using two = await startTwo(redis);
    const { first, second } = two;
    const rate = { requestsPerMinute: 3 };
    const asked = [first, second, first, second].map((gateway, index) => gateway.ask("a", rate, `r${index}`));
    expect((await Promise.all(asked)).sort()).toEqual([
      ...["admitted", "admitted", "admitted", "requestsPerMinute"],
    ]);
    const tokens = { tokensPerMinute: 100 };
    expect(await first.ask("b", tokens, "big")).toBe("admitted");
    first.end("big", 500);
    await vi.waitFor(async () => expect(await second.ask("b", tokens, "x")).toBe("tokensPerMinute"), within);
    // A server that has lost its data learns of requests in flight with the next renewal.
    first.shared.renew(new Map([["d", ["held"]]]));
    const one = { concurrentRequests: 1 };
    await vi.waitFor(async () => expect(await second.ask("d", one, "d2")).toBe("concurrentRequests"), within);
    // Without any of the three limits the server is not asked.
    expect(await first.ask("c", {}, "free")).toBe("admitted");
  },
);

test.skipIf(whyNoRedis !== undefined)(
  "a frozen or dead server delays no request, each gateway takes its share, and a returned server counts again",
  async () => {
    await using redis = await startRedis();
    await using two = await startTwo(redis, 2_000);
    const { first, second } = two;
    const limits = { concurrentRequests: 4 };
    redis.freeze();
    const responses = [await first.ask("a", limits, "f0")];
    // This one waited for the response, later ones do not.
    first.waits.length = 0;
    for (let index = 1; index < 20; index += 1) responses.push(await first.ask("a", limits, `f${index}`));
    expect(first.waits).not.toContain(2_000);
    expect(responses.filter((response) => response === "admitted")).toHaveLength(2);
    expect(await second.ask("a", limits, "s")).toBe("admitted");
    expect(first.lines).toEqual(["shared counters are unavailable; counting in this process"]);
    for (const index of responses.keys()) first.end(`f${index}`);
    redis.thaw();
    await redis.stop();
    expect(await first.ask("b", limits, "dead")).toBe("admitted");
    await using again = await startRedis(redis.port);
    expect(again.port).toBe(redis.port);
    await vi.waitFor(() => {
      for (const { shared } of [first, second]) expect(shared.isAvailable()).toBe(true);
    }, within);
    expect(first.lines.at(-1)).toBe("shared counters are available again");
    const shared = await Promise.all([1, 2, 3, 4, 5].map((index) => first.ask("c", limits, `c${index}`)));
    expect(shared.filter((response) => response === "admitted")).toHaveLength(4);
    expect(await second.ask("c", limits, "c6")).toBe("concurrentRequests");
  },
);

test("a server that was never there is the same as one that is gone", async () => {
  await using gateway = startGateway("redis://127.0.0.1:1");
  const limits = { requestsPerMinute: 2 };
  expect([await gateway.ask("a", limits, "1"), await gateway.ask("a", limits, "2")]).toEqual([
    ...["admitted", "requestsPerMinute"],
  ]);
  expect(gateway.shared.isAvailable()).toBe(false);
});
