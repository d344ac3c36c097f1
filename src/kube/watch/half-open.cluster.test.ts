/** A network that silently drops every packet: no FIN, no RST, no response. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, it, vi } from "vitest";
import { parse, stringify } from "yaml";
import { forwardTcp } from "../../../test/bed/forward-tcp.ts";
import { openNetwork, whyNoNetwork } from "../../../test/bed/network.ts";
import { startCluster } from "../../../test/cluster/cluster.ts";
import type { Seen } from "../../../test/fixtures/watch-worker.ts";

const WORKER = fileURLToPath(new URL("../../../test/fixtures/watch-worker.ts", import.meta.url));
const within = { timeout: 120_000, interval: 20 };
const why = whyNoNetwork();

interface Kubeconfig {
  readonly clusters: readonly { cluster: Record<string, string> }[];
}

/** Through another address, which the certificate does not name. */
function throughKubeconfig(kubeconfig: string, server: string, file: string): void {
  const config = parse(readFileSync(kubeconfig, "utf8")) as Kubeconfig;
  for (const { cluster } of config.clusters)
    Object.assign(cluster, { server, "tls-server-name": "kubernetes" });
  writeFileSync(file, stringify(config));
}

function startWorker(namespace: string, kubeconfig: string) {
  const program = [process.execPath, "--import", "tsx", WORKER, kubeconfig];
  const child = spawn("ip", ["netns", "exec", namespace, ...program], { stdio: ["pipe", "pipe", "inherit"] });
  const seen: (Seen & { readonly ms: number })[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => {
    seen.push({ ...(JSON.parse(line) as Seen), ms: performance.now() });
  });
  const end = async () => {
    child.stdin.end();
    if (child.exitCode === null) await once(child, "exit");
  };
  return { seen, [Symbol.asyncDispose]: end };
}

it.skipIf(why !== undefined)(
  "is found out by the kernel long before a watch would count as silent, and forgotten soon after it has passed",
  async () => {
    await using cluster = await startCluster({ crds: false });
    const network = await openNetwork(["station"]);
    const forward = await forwardTcp({
      listen: network.gateway,
      to: { host: "127.0.0.1", port: cluster.port },
    });
    const nft = (...args: string[]) =>
      execFileSync("ip", ["netns", "exec", network.station("station").namespace, "nft", ...args]);
    try {
      const createMap = (name: string) =>
        cluster.objects.create({ apiVersion: "v1", kind: "ConfigMap", metadata: { name } });
      const kubeconfig = path.join(cluster.dir, "inside.kubeconfig");
      throughKubeconfig(cluster.kubeconfig, `https://${network.gateway}:${forward.port}`, kubeconfig);
      await using worker = startWorker(network.station("station").namespace, kubeconfig);
      const { seen } = worker;
      const names = () => seen.flatMap((one) => (one.at === "change" ? [one.name] : []));
      await createMap("a");
      await vi.waitFor(() => expect(names()).toContain("a"), within);
      await vi.waitFor(
        () => expect(seen.filter(({ at }) => at === "renewal").length).toBeGreaterThan(3),
        within,
      );

      nft("add", "table", "inet", "cut");
      for (const hook of ["input", "output"]) {
        nft("add", "chain", "inet", "cut", hook, `{ type filter hook ${hook} priority 0; policy drop; }`);
      }
      const cutMs = performance.now();
      await createMap("b");
      const noticed = await vi.waitFor(() => {
        const first = seen.find((one) => one.at === "trouble" && one.ms > cutMs);
        if (first === undefined) throw new Error("the watch has not noticed yet");
        return first;
      }, within);
      // A watch that has been silent for too long names its silence.
      expect(noticed).not.toMatchObject({ message: expect.stringContaining("received no data") });
      expect(names()).not.toContain("b");

      nft("delete", "table", "inet", "cut");
      const backMs = performance.now();
      await vi.waitFor(() => expect(names()).toContain("b"), within);
      await vi.waitFor(
        () => expect(seen.some(({ at, ms }) => at === "renewal" && ms > backMs)).toBe(true),
        within,
      );
    } finally {
      await forward.close();
      await network[Symbol.asyncDispose]();
    }
  },
);
