/** Usage records in the real API server. */
import { randomUUID } from "node:crypto";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test, vi } from "vitest";
import { readUsageRecord } from "../../src/gateway/usage.ts";
import { renderUsageRecord } from "../../src/gateway/usage-record.ts";
import { connect } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { CONFIG_MAPS } from "../../src/kube/kinds.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { ApiFailure, KubeClient } from "../../src/kube/types.ts";
import type { Clock } from "../../src/util/ports.ts";
import { must } from "../../test/bed/must.ts";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { type CheckpointFile, openCheckpoint } from "./checkpoint.ts";
import { createUsageRecorder, type UsageRecorder, watchRecords } from "./recorder.ts";

const within = { timeout: 30_000, interval: 20 };
const OF = { key: "ada", namespace: "team-a", model: "chat", host: "mac-1" };
const TEN = { tokensIn: 7, tokensOut: 3, cached: 2, isEstimated: false };
const NOON = Date.parse("2026-11-27T12:00:00Z");
const lost: ApiFailure = { kind: "unreachable", status: 0, reason: "", message: "no answer" };

const noCheckpoint: CheckpointFile = {
  found: { position: undefined, days: [] },
  save: async () => true,
};

async function openFarm() {
  const stack = new AsyncDisposableStack();
  const cluster = sharedCluster();
  const { name: namespace } = stack.use(await cluster.namespace());
  const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  stack.defer(() => connection.close());
  const client = createClient(connection);
  let nowMs = NOON;
  const clock: Clock = { ...systemClock, nowMs: () => nowMs };
  /** A process of a gateway; the earlier one of the same name is gone. */
  const start = (
    gateway: string,
    changed: Partial<KubeClient> = {},
    checkpoint = noCheckpoint,
  ): UsageRecorder => {
    const ending = new AbortController();
    stack.defer(() => ending.abort());
    const ports = { connection, clock, log: quietLog, signal: ending.signal, namespace };
    const watched = watchRecords(ports);
    const own = { ...client, ...changed };
    return createUsageRecorder({ ...ports, client: own, gateway, newId: randomUUID, watched, checkpoint });
  };
  const tokens = async () => {
    const records = must(
      await client.list(CONFIG_MAPS, { namespace, labelSelector: "metalbridge.dev/gateway-usage" }),
    );
    return records.items.map((one) => [
      one.metadata.name,
      readUsageRecord(one)?.rows.reduce((sum, row) => sum + row.tokensIn + row.tokensOut, 0),
    ]);
  };
  const setNow = (iso: string) => {
    nowMs = Date.parse(iso);
  };
  return {
    client,
    namespace,
    start,
    tokens,
    setNow,
    now: () => nowMs,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

test("usage survives a restart, and the budget of a key counts all gateways", async () => {
  await using farm = await openFarm();
  const first = farm.start("gateway-1");
  first.add(OF, TEN);
  first.add({ ...OF, key: "bob" }, TEN);
  expect(first.spent("ada", farm.now())).toEqual({ today: 10, thisMonth: 10 });
  await first.flush();
  first.add(OF, { ...TEN, isEstimated: true });
  await first.flush();
  expect(first.spent("ada", farm.now())).toEqual({ today: 20, thisMonth: 20 });

  const second = farm.start("gateway-2");
  await vi.waitFor(() => expect(second.spent("ada", farm.now()).today).toBe(20), within);
  second.add(OF, TEN);
  expect(second.spent("ada", farm.now()).today).toBe(30);
  await second.flush();
  await vi.waitFor(() => expect(first.spent("ada", farm.now()).today).toBe(30), within);

  const restarted = farm.start("gateway-1");
  await vi.waitFor(() => expect(restarted.spent("ada", farm.now()).today).toBe(30), within);
  restarted.add(OF, TEN);
  expect(restarted.spent("ada", farm.now()).today).toBe(40);
  await restarted.flush();
  expect(await farm.tokens()).toEqual([
    ["gateway-usage-2026-11-27-gateway-1", 40],
    ["gateway-usage-2026-11-27-gateway-2", 10],
  ]);
  const rows = must(
    await farm.client.get(CONFIG_MAPS, {
      namespace: farm.namespace,
      name: "gateway-usage-2026-11-27-gateway-1",
    }),
  );
  expect(readUsageRecord(rows)?.rows).toContainEqual({
    ...OF,
    ...{ requests: 3, estimatedRequests: 1, tokensIn: 21, tokensOut: 9, tokensCached: 6 },
  });
});

test("two processes of one name, as in an upgrade, lose nothing of each other", async () => {
  await using farm = await openFarm();
  const [before, after] = [farm.start("gateway-1"), farm.start("gateway-1")];
  for (let round = 0; round < 5; round += 1) {
    before.add(OF, TEN);
    after.add({ ...OF, host: "mac-2" }, TEN);
    await Promise.all([before.flush(), after.flush()]);
  }
  expect(await farm.tokens()).toEqual([["gateway-usage-2026-11-27-gateway-1", 100]]);
});

test("a write without a known result counts once, whether it was stored or not", async () => {
  await using farm = await openFarm();
  const { client } = farm;
  let isStored = true;
  let isLost = true;
  const unsure =
    <Args extends readonly unknown[], R>(call: (...args: Args) => Promise<R>) =>
    async (...args: Args) => {
      if (!isLost) return call(...args);
      if (isStored) await call(...args);
      return { ok: false, error: lost } as R;
    };
  const gateway = farm.start("gateway-1", {
    create: unsure(client.create) as KubeClient["create"],
    update: unsure(client.update) as KubeClient["update"],
  });
  for (const stored of [true, false, true]) {
    isStored = stored;
    isLost = true;
    gateway.add(OF, TEN);
    await gateway.flush();
    expect(gateway.spent("ada", farm.now()).today).toBeGreaterThan(0);
    isLost = false;
    gateway.add(OF, TEN);
    await gateway.flush();
  }
  expect(await farm.tokens()).toEqual([["gateway-usage-2026-11-27-gateway-1", 60]]);
  expect(gateway.spent("ada", farm.now()).today).toBe(60);
  expect(gateway.writeFailures()).toBe(3);
});

test("at midnight UTC a new record begins, and the month's budget continues until the month ends", async () => {
  await using farm = await openFarm();
  const gateway = farm.start("gateway-1");
  farm.setNow("2026-11-30T23:59:59Z");
  gateway.add(OF, TEN);
  await gateway.flush();
  farm.setNow("2026-12-01T00:00:00Z");
  expect(gateway.spent("ada", farm.now())).toEqual({ today: 0, thisMonth: 0 });
  gateway.add(OF, TEN);
  await gateway.flush();
  farm.setNow("2026-12-02T00:00:00Z");
  gateway.add(OF, TEN);
  await gateway.flush();
  await vi.waitFor(
    () => expect(gateway.spent("ada", farm.now())).toEqual({ today: 10, thisMonth: 20 }),
    within,
  );
  expect(await farm.tokens()).toEqual([
    ["gateway-usage-2026-11-30-gateway-1", 10],
    ["gateway-usage-2026-12-01-gateway-1", 10],
    ["gateway-usage-2026-12-02-gateway-1", 10],
  ]);
});

test("records are removed once three later months have passed", async () => {
  await using farm = await openFarm();
  for (const day of ["2026-07-31", "2026-08-01"]) {
    const record = renderUsageRecord({ namespace: farm.namespace, gateway: "gone", day }, []);
    must(await farm.client.create(CONFIG_MAPS, record));
  }
  const gateway = farm.start("gateway-1");
  await gateway.clean();
  expect((await farm.tokens()).map(([name]) => name)).toEqual(["gateway-usage-2026-08-01-gone"]);
});

test.each([
  ["before a write", "before"],
  ["before the API server has stored a write", "unstored"],
  ["after the API server has stored a write", "stored"],
] as const)("a process that is killed %s counts each line of the access log once", async (_, when) => {
  await using farm = await openFarm();
  await using folder = await mkdtempDisposable(path.join(tmpdir(), "mb-usage-"));
  const file = path.join(folder.path, "checkpoint.json");
  const { client } = farm;
  let isKilled = false;
  const dying =
    <Args extends readonly unknown[], R>(call: (...args: Args) => Promise<R>) =>
    async (...args: Args): Promise<R> => {
      if (!isKilled) return call(...args);
      if (when === "stored") await call(...args);
      return new Promise<R>(() => {});
    };
  const changed = {
    create: dying(client.create) as KubeClient["create"],
    update: dying(client.update) as KubeClient["update"],
  };
  const first = farm.start("gateway-1", changed, await openCheckpoint(file, quietLog));
  first.add(OF, TEN);
  first.readUpTo({ inode: 1, offset: 100 });
  await first.flush();
  isKilled = true;
  first.add(OF, TEN);
  first.readUpTo({ inode: 1, offset: 200 });
  if (when !== "before") void first.flush();
  await vi.waitFor(
    async () => expect((await openCheckpoint(file, quietLog)).found.position?.offset).toBe(200),
    within,
  );
  if (when === "stored") await vi.waitFor(async () => expect((await farm.tokens())[0]?.[1]).toBe(20), within);
  // The file does not have this line: the next process reads it again.
  first.add(OF, TEN);

  const found = await openCheckpoint(file, quietLog);
  expect(found.found.position).toEqual({ inode: 1, offset: 200 });
  const second = farm.start("gateway-1", {}, found);
  second.add(OF, TEN);
  await second.flush();
  expect(await farm.tokens()).toEqual([["gateway-usage-2026-11-27-gateway-1", 30]]);
  expect((await openCheckpoint(file, quietLog)).found.days).toEqual([]);
});

test("a checkpoint that cannot be written defers the record, and nothing is counted twice afterwards", async () => {
  await using farm = await openFarm();
  let isFull = true;
  const checkpoint: CheckpointFile = { ...noCheckpoint, save: async () => !isFull };
  const gateway = farm.start("gateway-1", {}, checkpoint);
  gateway.add(OF, TEN);
  await gateway.flush();
  expect(await farm.tokens()).toEqual([]);
  expect(gateway.writeFailures()).toBe(1);
  isFull = false;
  await gateway.flush();
  expect(await farm.tokens()).toEqual([["gateway-usage-2026-11-27-gateway-1", 10]]);
});
