import fc from "fast-check";
import { expect, test } from "vitest";
import { createHeldBodies } from "./limits/bodies.ts";
import { createOwnCounters, type OwnCounters } from "./limits/own-counters.ts";
import type { ServedModel } from "./models/served-model.ts";
import { ModelQueues } from "./queue/queues.ts";
import { Requests } from "./requests.ts";
import { exampleModel } from "./testing/example-model.ts";
import { manualClock } from "./testing/manual-clock.ts";

const ADDRESSES = ["a:1", "b:1"];
const CALLER = { id: "key", limits: {} };
const MAX_BODY = 1_000;
const NO_TOKENS = { tokensIn: 0, tokensOut: 0, cached: 0, isEstimated: false };
const activeOf = (counters: OwnCounters) => counters.inFlight().get(CALLER.id)?.length ?? 0;
const settled = () => new Promise(setImmediate);

interface RigOptions {
  readonly slots?: number;
  readonly addresses?: readonly string[];
  readonly stopsAfterMs?: number;
}

function rig({ slots = 1, addresses = ["a:1"], stopsAfterMs = 0 }: RigOptions = {}) {
  const clock = manualClock();
  const lifetime = new AbortController();
  const models = new Map<string, ServedModel>();
  const queues = new ModelQueues({ get: (key) => models.get(key), list: () => models.values() }, clock);
  const counters = createOwnCounters();
  const bodies = createHeldBodies(MAX_BODY);
  const requests = new Requests({
    queues,
    limits: {
      // As with shared counters, the response may come after the end of the request.
      admit: async (key, id, nowMs) => {
        await settled();
        counters.begin(key, {}, id, nowMs);
        return { at: "admitted" };
      },
      answered: (id) => void counters.leave(id),
      ended: (id, { tokensIn, tokensOut }, nowMs) => void counters.end(id, tokensIn + tokensOut, nowMs),
    },
    bodies,
    onAdmitted: () => {},
    clock,
    signal: lifetime.signal,
  });
  const model = exampleModel(addresses, { slots, stopsAfterMs });
  const serve = (served: ServedModel | undefined): void => {
    if (served === undefined) models.delete(model.key);
    else models.set(model.key, served);
    queues.refresh(model.key);
  };
  serve(model);
  queues.setAccepted(model.key, ADDRESSES);
  const start = (id: string, signal = new AbortController().signal, isStream = false) => {
    const share = { flow: CALLER.id, weight: 1, priority: 0, user: undefined };
    const deadlineMs = clock.monotonicMs() + 60_000;
    const more = { affinity: undefined, isStream, deadlineMs, signal };
    return requests.start({ id, caller: CALLER, model, share, ...more });
  };
  const cancel = (id: string) =>
    requests.end(id, "finished", { tokens: NO_TOKENS, hasFailed: false, isCanceled: true });
  const endLost = (active?: ReadonlyMap<string, number>): readonly string[] => {
    const lost = requests.findLost(active);
    for (const [id, why] of lost) requests.end(id, why);
    return [...lost.keys()];
  };
  const queue = () => queues.get(model.key);
  return { clock, lifetime, model, queues, queue, requests, counters, bodies, serve, start, cancel, endLost };
}

test("the end of a request frees its slot once, even if it is reported again", async () => {
  const { requests, queue, start } = rig();
  expect(await start("1")).toMatchObject({ at: "assigned" });
  const second = start("2");
  await settled();
  expect(requests.end("1", "finished")).toBe(true);
  expect(requests.end("1", "finished")).toBe(false);
  expect(await second).toMatchObject({ at: "assigned" });
  expect(queue()?.inFlight).toBe(1);
});

test("an answered request frees its slot, and its line returns the rest", async () => {
  const { requests, queue, counters, start } = rig();
  await start("1");
  const second = start("2");
  await settled();
  requests.answered("1", 200);
  expect(await second).toMatchObject({ at: "assigned" });
  // Doubled, late, of another gateway.
  for (const id of ["1", "1", "other"]) requests.answered(id, 200);
  expect(queue()?.inFlight).toBe(1);
  expect(activeOf(counters)).toBe(1);
  const tokens = { tokensIn: 3, tokensOut: 4, cached: 0, isEstimated: false };
  expect(requests.end("1", "finished", { tokens, hasFailed: false })).toBe(true);
  expect(queue()?.inFlight).toBe(1);
  const third = start("3");
  await settled();
  requests.end("2", "finished");
  requests.answered("2", 200);
  expect(await third).toMatchObject({ at: "assigned" });
  expect(queue()?.inFlight).toBe(1);
});

test.each([0, 502, 503])("status %d keeps the slot until the line says what failed", async (status) => {
  const { requests, queue, start } = rig({ addresses: ADDRESSES });
  await start("1");
  requests.answered("1", status);
  expect(queue()?.inFlight).toBe(1);
  requests.end("1", "finished", { tokens: NO_TOKENS, hasFailed: true });
  expect(await start("2")).toMatchObject({ addresses: ["b:1"] });
});

test("the replica of a request that another one has answered is avoided, and gets no speed from it", async () => {
  const { requests, start } = rig({ addresses: ADDRESSES, slots: 2 });
  expect(await start("1")).toMatchObject({ addresses: ["a:1", "b:1"] });
  requests.answered("1", 200);
  requests.end("1", "finished", { tokens: NO_TOKENS, tokensPerSecond: 1_000, hasFailed: true });
  expect(await start("2")).toMatchObject({ addresses: ["b:1"] });
});

test("an answered request whose line is lost is forgotten", async () => {
  const { requests, clock, start, endLost } = rig({ slots: 4 });
  await start("1");
  requests.answered("1", 200);
  clock.advance(10_001);
  expect(endLost(new Map())).toEqual(["1"]);
  expect(requests.end("1", "finished")).toBe(false);
});

test("the slot of a canceled request is taken until the engine has looked for its client, and is freed once", async () => {
  const { requests, queue, clock, counters, start, cancel } = rig({ stopsAfterMs: 1_000 });
  await start("1");
  const second = start("2");
  await settled();
  requests.answered("1", 0);
  expect(cancel("1")).toBe(true);
  expect(cancel("1")).toBe(false);
  expect(activeOf(counters)).toBe(1);
  clock.advance(999);
  expect(queue()?.inFlight).toBe(1);
  clock.advance(1);
  expect(await second).toMatchObject({ at: "assigned" });
  clock.advance(60_000);
  expect(queue()?.inFlight).toBe(1);
});

test.each([
  ["an engine that stops at once", 0, false],
  ["a replica that failed", 1_000, true],
])("a canceled request of %s frees its slot at once", async (_, stopsAfterMs, hasFailed) => {
  const { requests, queue, start } = rig({ stopsAfterMs });
  await start("1");
  requests.end("1", "finished", { tokens: NO_TOKENS, hasFailed, isCanceled: true });
  expect(queue()?.inFlight).toBe(0);
});

test("a gateway that stops waits for no canceled request", async () => {
  const { queue, lifetime, clock, start, cancel } = rig({ slots: 2, stopsAfterMs: 1_000 });
  for (const id of ["1", "2"]) await start(id);
  cancel("1");
  lifetime.abort();
  cancel("2");
  clock.advance(60_000);
  expect(queue()?.inFlight).toBe(2);
});

test("a canceled request whose slot was freed by a message takes it no second time", async () => {
  const { requests, queue, start, cancel } = rig({ stopsAfterMs: 1_000 });
  await start("1");
  requests.answered("1", 408);
  cancel("1");
  expect(queue()?.inFlight).toBe(0);
});

const NEVER = Number.POSITIVE_INFINITY;
test.each([
  { what: "a stream that ends after 5 s", meanSeconds: 60, other: true, endMs: 5_500, freeMs: 7_000 },
  { what: "a stream that does not end", meanSeconds: 60, other: true, endMs: NEVER, freeMs: 30_000 },
  { what: "an endless stream of a fast model", meanSeconds: 2.2, other: true, endMs: NEVER, freeMs: 4_400 },
  { what: "an endless stream of a faster one", meanSeconds: 0.1, other: true, endMs: NEVER, freeMs: 1_000 },
  { what: "another request without stream", meanSeconds: 60, other: false, endMs: NEVER, freeMs: 1_000 },
  { what: "a stream, itself one", meanSeconds: 60, other: true, self: true, endMs: NEVER, freeMs: 1_000 },
])("beside $what, the slot of a canceled request is freed in time", async (given) => {
  const { meanSeconds, other, self = false, endMs, freeMs } = given;
  const { requests, queue, clock, start, cancel } = rig({ slots: 2, stopsAfterMs: 1_000 });
  await start("earlier");
  clock.advance(meanSeconds * 1_000);
  requests.end("earlier", "finished");
  await start("stream", undefined, other);
  await start("canceled", undefined, self);
  clock.after(endMs, () => requests.end("stream", "finished"));
  cancel("canceled");
  clock.advance(freeMs - 1);
  expect(queue()?.inFlight).toBe(endMs < freeMs ? 1 : 2);
  clock.advance(1);
  expect(queue()?.inFlight).toBe(endMs < freeMs ? 0 : 1);
});

test("the time for which the slot of a canceled request is kept is not part of the mean duration", async () => {
  const { clock, queue, start, cancel } = rig({ stopsAfterMs: 1_000 });
  await start("1");
  clock.advance(3_000);
  cancel("1");
  clock.advance(1_000);
  expect(queue()).toMatchObject({ inFlight: 0, meanSeconds: 3 });
});

test("a stream of another replica does not keep the slot of a canceled request", async () => {
  const { queue, clock, start, cancel } = rig({ addresses: ADDRESSES, stopsAfterMs: 1_000 });
  await start("1");
  await start("2");
  cancel("1");
  clock.advance(1_000);
  expect(queue()?.inFlight).toBe(1);
});

test("a request that Envoy still counts is ended after hours", async () => {
  const { clock, model, requests, queue, start, endLost } = rig();
  await start("1");
  clock.advance(4 * 3_600_000);
  const active = new Map([[model.key, 1]]);
  expect(endLost(active)).toEqual([]);
  clock.advance(1);
  expect(requests.findLost(active)).toEqual(new Map([["1", "too old"]]));
  endLost(active);
  expect(queue()?.inFlight).toBe(0);
});

test("old requests that Envoy no longer has are ended, the oldest first, and no more than Envoy lacks", async () => {
  const { clock, model, requests, queue, start, endLost } = rig({ slots: 4 });
  for (const id of ["1", "2", "3"]) {
    await start(id);
    clock.advance(3_000);
  }
  expect(requests.hasOld()).toBe(false);
  clock.advance(1_001);
  expect(requests.hasOld()).toBe(true);
  expect(endLost(new Map([[model.key, 3]]))).toEqual([]);
  expect(endLost(undefined)).toEqual([]);
  await start("4");
  // The last one is on its way to Envoy, and the third one is not old enough.
  expect(endLost(new Map())).toEqual(["1"]);
  expect(queue()?.inFlight).toBe(3);
});

test("a request that waits for a slot whose end was lost gets it before its wait of 30 s ends", async () => {
  const { clock, requests, start, endLost } = rig();
  await start("lost");
  const waiting = start("next");
  await settled();
  clock.advance(10_001);
  expect(requests.hasOld()).toBe(true);
  endLost(new Map());
  expect(await waiting).toMatchObject({ at: "assigned" });
});

test("an Envoy that exited frees all slots and bodies, and a deleted model refuses what waits", async () => {
  const { requests, bodies, serve, start } = rig();
  for (const id of ["b1", "b2", "b3", "b4"]) bodies.take(id, "key", MAX_BODY, 0);
  await start("1");
  const second = start("2");
  await settled();
  requests.endAll();
  expect(await second).toMatchObject({ at: "assigned" });
  expect(bodies.take("b5", "key", MAX_BODY, 0)).toBe(true);
  const third = start("3");
  await settled();
  serve(undefined);
  expect(await third).toEqual({ at: "off" });
  expect(await start("4")).toEqual({ at: "off" });
});

test("an Envoy that exited cancels its requests: their slots are kept until the engine has stopped, except answered ones", async () => {
  const { requests, queue, clock, start } = rig({ slots: 3, stopsAfterMs: 1_000 });
  for (const id of ["answered", "plain"]) await start(id);
  await start("stream", undefined, true);
  requests.answered("answered", 200);
  requests.endAll();
  expect(queue()?.inFlight).toBe(2);
  clock.advance(1_000);
  expect(queue()?.inFlight).toBe(0);
});

test("a repeated question replaces the first one, which may still wait", async () => {
  const { requests, queue, start } = rig();
  await start("1");
  const first = start("2");
  await settled();
  const repeated = start("2");
  expect(await first).toEqual({ at: "left" });
  await settled();
  expect(queue()?.waiting).toBe(1);
  requests.end("1", "finished");
  expect(await repeated).toMatchObject({ at: "assigned" });
  expect(queue()?.inFlight).toBe(1);
});

test("a request that ends just when it gets a slot passes the slot to the next one", async () => {
  const { requests, queue, start } = rig();
  await start("1");
  const [second, third] = [start("2"), start("3")];
  await settled();
  requests.end("1", "finished");
  requests.end("2", "finished");
  expect(await second).toEqual({ at: "left" });
  expect(await third).toMatchObject({ at: "assigned" });
  expect(queue()?.inFlight).toBe(1);
});

test("the end of a request of a deleted model leaves the slots of a new model with its name", async () => {
  const { model, queues, queue, requests, serve, start } = rig();
  await start("old");
  serve(undefined);
  serve(model);
  queues.setAccepted(model.key, ADDRESSES);
  expect(await start("new")).toMatchObject({ at: "assigned" });
  requests.end("old", "finished");
  expect(queue()?.inFlight).toBe(1);
});

const id = fc.constantFrom("1", "2", "3", "4");
const WHAT = [
  "exit",
  "age",
  "lose",
  "delete",
  "lackReplicas",
  "serve",
  "start",
  "finish",
  "cancel",
  "close",
  "settle",
] as const;
type Step = (typeof WHAT)[number];
const OFTEN: readonly Step[] = ["start", "start", "start", "finish", "close", "settle", "settle"];
const step = fc.record({ what: fc.constantFrom<Step[]>(...WHAT, ...OFTEN), id });

/** The parts of `rig` under random steps. */
function randomRig() {
  const { clock, model, queue, requests, counters, bodies, serve, start, cancel, endLost } = rig({
    addresses: ADDRESSES,
    stopsAfterMs: 1_000,
  });
  const questions: { readonly id: string; readonly closing: AbortController }[] = [];
  const results: Promise<unknown>[] = [];
  const steps: Record<Step, (id: string) => unknown> = {
    start: (id) => {
      const closing = new AbortController();
      questions.push({ id, closing });
      bodies.take(id, CALLER.id, 1, clock.monotonicMs());
      results.push(start(id, closing.signal, id < "3"));
    },
    finish: (id) => requests.end(id, "finished"),
    cancel,
    close: (id) => questions.find((one) => one.id === id)?.closing.abort(),
    settle: async () => {
      for (let turn = 0; turn < 3; turn += 1) await settled();
      const { inFlight = 0, waiting = 0, capacity = 0 } = queue() ?? {};
      // Otherwise a free slot was lost.
      if (waiting > 0) expect(inFlight).toBeGreaterThanOrEqual(capacity);
    },
    exit: () => requests.endAll(),
    age: () => clock.advance(11_000),
    lose: () => endLost(new Map()),
    delete: () => serve(undefined),
    lackReplicas: () => serve({ ...model, endpoints: [] }),
    serve: () => serve(model),
  };
  const finish = async (): Promise<void> => {
    for (const { closing } of questions) closing.abort();
    await Promise.all(results);
    for (const { id } of questions) requests.end(id, "finished");
    clock.advance(30_000);
    serve(model);
    const { inFlight, waiting } = queue() ?? {};
    expect({ inFlight, waiting, hasOld: requests.hasOld() }).toEqual({
      inFlight: 0,
      waiting: 0,
      hasOld: false,
    });
    expect(counters.inFlight().size).toBe(0);
    for (const body of ["v", "x", "y", "z"]) expect(bodies.take(body, CALLER.id, MAX_BODY, 0)).toBe(true);
  };
  return { steps, finish };
}

test("no order of ends leaks a slot, a place in the limits or a body, or frees one twice", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (sequence) => {
      const { steps, finish } = randomRig();
      for (const { what, id } of sequence) {
        // Other steps follow each other before anything that waits continues.
        const done = steps[what](id);
        if (done instanceof Promise) await done;
      }
      await finish();
    }),
    { numRuns: 300 },
  );
});
