import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test, vi } from "vitest";
import { NAMESPACE_SYSTEM } from "../src/api/group.ts";
import { connect } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { LEASES } from "../src/kube/kinds.ts";
import type { Log } from "../src/ports.ts";
import { oneCluster } from "../test/cluster/cluster.ts";
import { quietLog } from "../test/cluster/quiet-log.ts";
import { parseControllerConfig } from "./config.ts";
import { runController } from "./main.ts";

const WAIT = { timeout: 60_000, interval: 50 };
const ownCluster = oneCluster({ crds: false });

/** A controller of its own, with the address of its health endpoints. */
async function start(kubeconfig: string, identity: string, log: Log = quietLog) {
  const stop = new AbortController();
  const config = parseControllerConfig({ kubeconfig, identity, healthPort: 0, leaseRetrySeconds: 1 });
  let listening: (port: number) => void = () => {};
  const port = new Promise<number>((resolve) => {
    listening = resolve;
  });
  const running = runController({ config, log, signal: stop.signal, onListening: listening });
  const url = `http://127.0.0.1:${await Promise.race([port, running])}`;
  return {
    get: async (path: string) => {
      const response = await fetch(url + path);
      return `${response.status} ${await response.text()}`;
    },
    stop: async () => {
      stop.abort();
      await running;
    },
  };
}

test("it waits for CRDs, leads alone, hands over at once, and gives the Lease back", async () => {
  const cluster = ownCluster();
  const first = await start(cluster.kubeconfig, "first");
  expect(await first.get("/healthz")).toBe("200 ok\n");
  await vi.waitFor(
    async () => expect(await first.get("/readyz")).toContain("503 waiting for the first lists"),
    WAIT,
  );

  await cluster.installCrds();
  await vi.waitFor(async () => expect(await first.get("/readyz")).toBe("200 ok\n"), WAIT);
  expect(await first.get("/metrics")).toMatch(/metalbridge_controller_leading 1/);

  const second = await start(cluster.kubeconfig, "second");
  await vi.waitFor(
    async () => expect(await second.get("/readyz")).toBe("503 waiting for leadership\n"),
    WAIT,
  );
  await first.stop();
  await vi.waitFor(async () => expect(await second.get("/readyz")).toBe("200 ok\n"), WAIT);
  await second.stop();

  const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  const lease = await createClient(connection).get(LEASES, {
    name: "metalbridge-controller",
    namespace: NAMESPACE_SYSTEM,
  });
  connection.close();
  expect(lease.ok ? (lease.value.spec?.holderIdentity ?? "") : lease.error).toBe("");
});

test("a kubeconfig that cannot be read is an error", async () => {
  const stop = new AbortController();
  const config = parseControllerConfig({ kubeconfig: "/nonexistent/kubeconfig", healthPort: 0 });
  await expect(runController({ config, log: quietLog, signal: stop.signal })).rejects.toMatchObject({
    code: "KubeconfigUnreadable",
  });
});

test("a kubeconfig that leads nowhere is waited for, and said once with what to do", async () => {
  const cluster = ownCluster();
  await cluster.installCrds();
  const right = await readFile(cluster.kubeconfig, "utf8");
  const file = path.join(cluster.dir, "nowhere.kubeconfig");
  await writeFile(file, right.replace(`:${cluster.port}`, ":1"));
  const lines: string[] = [];
  const controller = await start(file, "patient", { ...quietLog, warn: (_, text) => lines.push(text) });
  await vi.waitFor(() => expect(lines).toHaveLength(1), WAIT);
  expect(lines[0]).toMatch(/retrying: .*127\.0\.0\.1:1.*; .*kubeconfig/);
  expect(await controller.get("/healthz")).toBe("200 ok\n");
  expect(await controller.get("/readyz")).toBe("503 waiting for the API server\n");
  await writeFile(file, right);
  await vi.waitFor(async () => expect(await controller.get("/readyz")).toBe("200 ok\n"), WAIT);
  await controller.stop();
});
