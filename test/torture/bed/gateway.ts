/** The gateway of the farm, in the clients' namespace and with a small disk of its own, and its key for the load. */
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { hashKey, KEY_BYTES, keySecret, keyText } from "../../../src/gateway/key-secret.ts";
import { readUsageRecord } from "../../../src/gateway/usage.ts";
import { CONFIG_MAPS, SECRETS } from "../../../src/kube/kinds.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import { envoyPath, envoyPids } from "../../bed/envoy.ts";
import { must } from "../../bed/must.ts";
import type { Station } from "../../bed/network.ts";
import type { Release } from "../../bed/release.ts";
import { run } from "../../bed/run.ts";
import { send } from "../../bed/signal.ts";
import { fill, unmount } from "./disk.ts";
import { NAMESPACE } from "./fleet-objects.ts";
import { type ControlledPart, controlPart } from "./process-control.ts";

export interface TestGateway {
  readonly part: ControlledPart;
  /** Without /v1. */
  readonly url: string;
  /** The key of the load. */
  readonly key: string;
  /** Undefined while none runs. */
  readonly envoyPid: () => number | undefined;
  /** True if Envoy and the decision service answer. */
  readonly answers: () => Promise<boolean>;
  readonly metrics: () => Promise<string>;
  /** Requests of the load in the usage records. */
  readonly recordedRequests: () => Promise<number>;
  readonly createKey: (name: string) => Promise<string>;
  readonly revokeKey: (name: string) => Promise<void>;
  readonly fillDisk: () => void;
  readonly freeDisk: () => void;
  readonly dispose: () => Promise<void>;
}

export interface GatewayPlace {
  readonly dir: string;
  readonly station: Station;
  readonly kubeconfig: string;
  readonly client: KubeClient;
  readonly release: Release;
}

const DISK = "size=16m";
const PORT = 4000;
const HEALTH_PORT = 9468;
const LOAD = "load";
const ANSWERS_WITHIN_MS = 2_000;

/** Not started yet. */
export async function prepareGateway({
  dir,
  station,
  kubeconfig,
  client,
  release,
}: GatewayPlace): Promise<TestGateway> {
  if (envoyPath === undefined) throw new Error("Envoy is not installed: npm run setup -- --for test");
  const disk = path.join(dir, "gateway");
  const ballast = path.join(disk, "ballast");
  mkdirSync(disk, { recursive: true });
  await run("mount", ["-t", "tmpfs", "-o", DISK, "metalbridge-torture", disk]);
  const { address } = station;
  const args = [
    ...["gateway", "--kubeconfig", kubeconfig, "--dir", path.join(disk, "run"), "--envoy", envoyPath],
    ...["--address", "0.0.0.0", "--port", String(PORT), "--namespace", NAMESPACE],
    ...["--health-address", "0.0.0.0", "--health-port", String(HEALTH_PORT)],
  ];
  const part = controlPart({ name: "gateway", dir, args, inside: station.inside, release });
  const url = `http://${address}:${PORT}`;
  const createKey = async (name: string): Promise<string> => {
    const text = keyText(randomBytes(KEY_BYTES));
    must(await client.create(SECRETS, keySecret(NAMESPACE, name, keyOf(name, text))));
    return text;
  };
  const processes = (): readonly number[] => envoyPids(path.join(disk, "run")).filter(isEnvoy);
  const get = (at: string) => fetch(at, { signal: AbortSignal.timeout(ANSWERS_WITHIN_MS) });
  return {
    part,
    url,
    key: await createKey(LOAD),
    envoyPid: () => processes().at(-1),
    answers: () =>
      get(`${url}/healthz`).then(
        ({ status }) => status === 200,
        () => false,
      ),
    metrics: async () => (await get(`http://${address}:${HEALTH_PORT}/metrics`)).text(),
    recordedRequests: async () => {
      const { items } = must(await client.list(CONFIG_MAPS, { namespace: NAMESPACE }));
      const rows = items.flatMap((one) => readUsageRecord(one)?.rows ?? []);
      return rows.filter(({ key }) => key === LOAD).reduce((sum, { requests }) => sum + requests, 0);
    },
    createKey,
    revokeKey: async (name) => {
      const stored = must(await client.get(SECRETS, { namespace: NAMESPACE, name }));
      const revoked = keySecret(NAMESPACE, name, { ...keyOf(name, ""), revokedAt: new Date().toISOString() });
      must(await client.update(SECRETS, { ...stored, data: { ...stored.data, ...revoked.data } }));
    },
    fillDisk: () => fill(ballast),
    freeDisk: () => rmSync(ballast, { force: true }),
    dispose: async () => {
      rmSync(ballast, { force: true });
      await part.dispose();
      for (const pid of processes()) send(pid, "SIGKILL");
      await unmount(disk);
    },
  };
}

function keyOf(owner: string, text: string) {
  const hashes = [{ sha256: hashKey(text), createdAt: new Date().toISOString() }];
  const scope = { namespaces: [NAMESPACE] };
  return { hashes, owner, scope, limits: {}, priority: "normal" as const, weight: 1 };
}

/** Those that were recorded and still run. */
function isEnvoy(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8").startsWith("envoy");
  } catch {
    return false;
  }
}
