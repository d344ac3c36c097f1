import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { sharedCluster } from "../../../test/cluster/cluster.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { proxyCluster } from "../../../test/fixtures/fault-proxy.ts";
import type { Clock } from "../../util/ports.ts";
import { connect, type KubeConnection } from "../client/connect.ts";
import { CONFIG_MAPS } from "../kinds.ts";
import { systemClock } from "../system-clock.ts";
import { startReflector } from "./reflector.ts";

const within = { timeout: 60_000, interval: 10 };
/** Longer than any wait between attempts; the watch's own guard waits longer. */
const MAX_MS = 60_000;

it("begins with short waits in each outage, although nothing happened between them", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  const dir = await mkdtemp(join(tmpdir(), "metalbridge-outages-"));
  await using proxy = await proxyCluster(cluster.kubeconfig, dir);
  const connection = await connect({ kubeconfigPath: proxy.kubeconfig });
  const waits: number[] = [];
  const seen = { opened: 0, failed: 0, aheadMs: 0 };
  const ending = new AbortController();
  const counted: KubeConnection = {
    ...connection,
    stream: async (request) => {
      const result = await connection.stream(request);
      if (result.ok) seen.opened += 1;
      return result;
    },
  };
  const clock: Clock = {
    ...systemClock,
    monotonicMs: () => systemClock.monotonicMs() + seen.aheadMs,
    after: (delayMs, fire) => {
      if (delayMs <= MAX_MS) waits.push(delayMs);
      return systemClock.after(delayMs <= MAX_MS ? delayMs / 1_000 : delayMs, fire);
    },
  };
  startReflector({
    connection: counted,
    clock,
    log: quietLog,
    signal: ending.signal,
    kind: CONFIG_MAPS,
    namespace: namespace.name,
    silenceMs: 3_600_000,
    onChange: () => {},
    onFailure: () => {
      seen.failed += 1;
    },
  });
  const outage = async () => {
    await vi.waitFor(() => expect(seen.opened).toBeGreaterThan(0), within);
    seen.aheadMs += 10_000;
    waits.length = 0;
    const { failed } = seen;
    proxy.refuse(true);
    proxy.cut();
    await vi.waitFor(() => expect(seen.failed).toBeGreaterThan(failed + 6), within);
    seen.opened = 0;
    proxy.refuse(false);
    return waits.slice(0, 2);
  };
  await outage();
  expect(Math.max(...(await outage()))).toBeLessThanOrEqual(500);
  ending.abort();
  connection.close();
  await rm(dir, { recursive: true, force: true });
});
