import { EventEmitter, once } from "node:events";
import type { ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { createDensity } from "../../fitness/density/density.ts";
import { createFitIndex } from "../../fitness/density/fits.ts";
import { aHost, catalogRecords, manyHosts } from "../../fitness/density/fixtures/fleet.ts";
import { machineFromHost } from "../../fitness/density/place.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { createApp } from "./app.ts";
import type { AuthorizeRequest } from "./authorize.ts";
import { ANSWER_LIMITS, createAnswerLimit } from "./encode.ts";
import { type RouteResult, routes } from "./routes.ts";

test("concurrent responses never exceed the limits, and a response that has been read frees its slot", () => {
  const limits = { all: 5, ofUser: 2 };
  const step = fc.record({ user: fc.constantFrom("a", "b", "c", "d"), read: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const limit = createAnswerLimit(limits);
      const underWay: { readonly user: string; readonly response: EventEmitter }[] = [];
      for (const { user, read } of steps) {
        if (read) underWay.shift()?.response.emit("close");
        const response = new EventEmitter();
        const own = underWay.filter((one) => one.user === user).length;
        const isTaken = limit.take(user, response as unknown as ServerResponse);
        expect(isTaken).toBe(underWay.length < limits.all && own < limits.ofUser);
        if (isTaken) underWay.push({ user, response });
      }
    }),
  );
});

test("a page has at most 1,000 rows, and a catalog page 10,000 pairs, for any limit and offset", () => {
  const density = createDensity(createFitIndex(catalogRecords()));
  for (const host of manyHosts(1_200)) density.setPlace("Host", host.metadata.name, machineFromHost(host));
  const now = { wallMs: 0, monotonicMs: 0 };
  const answer = (path: string, given: object): RouteResult | undefined => {
    const route = routes.find((one) => one.path.endsWith(path));
    const query = route?.query.parse(given) ?? {};
    return route?.answer({ density, now, query, body: undefined, name: "" });
  };
  const paging = fc.record({ limit: fc.integer({ min: 1, max: 10_000 }), offset: fc.nat(2_000) });
  fc.assert(
    fc.property(fc.constantFrom("/nodes", "/runtimes", "/query", "/catalog"), paging, (path, page) => {
      const given = { ...page, ...(path === "/query" ? { model: "Qwen2.5", min_fit: "too_tight" } : {}) };
      const found = answer(path, given);
      const rows = found?.status === 200 ? [...(found.list?.rows ?? [])] : [];
      expect(rows.length).toBeLessThanOrEqual(Math.min(page.limit, 1_000));
      if (path !== "/catalog") return;
      const pairs = rows.map((row) => (row as { readonly nodes: readonly object[] }).nodes.length);
      expect(pairs.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(10_000);
    }),
    { numRuns: 40 },
  );
});

test("a page of hosts contains at most 10,000 models or one host, and pages join without gaps", () => {
  const now = { wallMs: 0, monotonicMs: 0 };
  const fits = createFitIndex([]);
  const anyPath = fc.constantFrom("/nodes", "/installed-models");
  fc.assert(
    fc.property(anyPath, fc.array(fc.nat(12_000), { minLength: 1, maxLength: 12 }), (path, counts) => {
      const density = createDensity(fits);
      const names = counts.map((_, index) => `mac-${String(index).padStart(2, "0")}`);
      for (const [index, count] of counts.entries()) {
        const models = Array(count).fill({ source: "hf://a/b", runtime: "llamacpp" });
        const name = names[index] ?? "";
        density.setPlace("Host", name, { ...machineFromHost(aHost(name)), models });
      }
      const route = routes.find((one) => one.path.endsWith(path));
      const seen: string[] = [];
      for (let offset: number | undefined = 0; offset !== undefined; ) {
        const query: object = route?.query.parse({ offset }) ?? {};
        const answer = route?.answer({ density, now, query: { ...query }, body: undefined, name: "" });
        if (answer?.status !== 200) throw new Error(answer?.text);
        const rows = [...(answer.list?.rows ?? [])] as {
          readonly nodeName: string;
          readonly models?: readonly object[];
          readonly installedModels?: readonly object[];
        }[];
        const held = rows.reduce((sum, row) => sum + (row.models ?? row.installedModels ?? []).length, 0);
        expect(held <= 10_000 || rows.length === 1).toBe(true);
        seen.push(...rows.map(({ nodeName }) => nodeName));
        offset = (answer.body as { readonly nextOffset?: number }).nextOffset;
      }
      expect(seen).toEqual(names);
    }),
    { numRuns: 30 },
  );
});

/** Requests to /mcp are never answered; `posted` resolves with each such request. */
async function listen(authorize: AuthorizeRequest = async (user) => ({ at: "allowed", user })) {
  const calls = new EventEmitter();
  const app = createApp({
    density: createDensity(createFitIndex([])),
    clock: systemClock,
    log: quietLog,
    authorize,
    notReady: () => undefined,
    mcp: async () => void calls.emit("call"),
  });
  onTestFinished(async () => app.close());
  await app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = app.server.address() as AddressInfo;
  const ask = async (path: string, headers = {}): Promise<number> => {
    const sent = { authorization: "Bearer alice", ...headers };
    return (await fetch(`http://127.0.0.1:${port}${path}`, { headers: sent })).status;
  };
  const open = async () => {
    const socket = connect(port, "127.0.0.1");
    const [accepted] = (await once(app.server, "connection")) as [Socket];
    return { socket, closed: once(accepted, "close") };
  };
  const post = async () => {
    const { socket, closed } = await open();
    const called = once(calls, "call");
    socket.write(`POST /mcp HTTP/1.1\r\n${HEAD}content-length: 2\r\n\r\n{}`);
    await called;
    return { socket, closed };
  };
  return { app, ask, open, post };
}

const HEAD = "host: a\r\nauthorization: Bearer alice\r\n";
const NODES = "/api/v1/density/nodes";

test("a client that disconnects during its access review takes no slot", async () => {
  let review: Promise<void> | undefined;
  const { app, ask, open } = await listen(async (user) => {
    await review;
    return { at: "allowed", user };
  });
  const checked = Promise.withResolvers<void>();
  review = checked.promise;
  for (let count = 0; count < ANSWER_LIMITS.ofUser; count += 1) {
    const { socket, closed } = await open();
    const requested = once(app.server, "request");
    socket.write(`GET ${NODES} HTTP/1.1\r\n${HEAD}\r\n`);
    await requested;
    socket.destroy();
    await closed;
  }
  review = undefined;
  checked.resolve();
  expect(await ask(NODES)).toBe(200);
});

test("an Accept header for events does not bypass the limit on paths without events", async () => {
  const { ask, post } = await listen();
  for (let count = 0; count < ANSWER_LIMITS.ofUser; count += 1) await post();
  const events = { accept: "text/event-stream" };
  expect([await ask("/openapi.json", events), await ask("/nothing", events)]).toEqual([503, 503]);
});
