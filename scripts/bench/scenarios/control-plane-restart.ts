/** The control plane goes and comes back under fifty hosts whose engines are healthy: none may be withdrawn. */
import path from "node:path";
import { writeTinyModel } from "../../../local/demo/tiny-model.ts";
import { LABEL_HOST } from "../../../src/api/group.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import { startPart } from "../../../test/bed/part.ts";
import { installRelease } from "../../../test/bed/release.ts";
import type { Measurement } from "../measurement.ts";
import { isTrue, openPlane, type Plane } from "../plane.ts";
import { type ScriptedHost, startScriptedHost } from "../scripted-host.ts";
import { isReady } from "./start.ts";

const HOSTS = 50;
/** Shorter than a Lease lasts, and longer: then every Lease is old when the controller reads them. */
const OUTAGES = [
  { awayMs: 0, endsController: true },
  { awayMs: 60_000, endsController: true },
  { awayMs: 60_000, endsController: false },
];
/** A verdict about silence would come within this time after the return. */
const WATCH_MS = 50_000;

export async function measureControlPlaneRestart(): Promise<readonly Measurement[]> {
  await using plane = await openPlane();
  const { program } = installRelease(path.join(plane.dir, "release"), "0.1.0-bench");
  const args = ["controller", "--kubeconfig", plane.controlPlane.kubeconfig, "--health-port", "0"];
  const startController = () => startPart(args, path.join(plane.dir, "controller.log"), program);
  let controller = startController();
  plane.atEnd(() => controller.kill("SIGTERM"));
  const hosts = await serveOnAll(plane);
  const withdrawn: number[] = [];
  const returns: number[] = [];
  for (const { awayMs, endsController } of OUTAGES) {
    const before = hosts.map(({ renewals }) => renewals());
    const gone = countWithdrawn(plane);
    await plane.controlPlane.stopApiServer();
    if (endsController) await controller.kill("SIGKILL");
    await pause(awayMs);
    await plane.controlPlane.startApiServer();
    const backAt = performance.now();
    if (endsController) controller = startController();
    await until("every Lease to be renewed", () =>
      hosts.every(({ renewals }, index) => renewals() > (before[index] ?? 0)),
    );
    returns.push(performance.now() - backAt);
    await pause(WATCH_MS);
    withdrawn.push(gone());
  }
  const name = `control plane restarted, ${HOSTS} hosts`;
  return [
    {
      name: `${name}: slices withdrawn`,
      unit: "slices",
      samples: withdrawn,
      targets: [{ statistic: "max", limit: 0 }],
    },
    { name: `${name}: API server ready → all Leases renewed`, unit: "ms", samples: returns, targets: [] },
  ];
}

/** One service with a replica on every host, each of them ready. */
async function serveOnAll(plane: Plane): Promise<readonly ScriptedHost[]> {
  const ending = new AbortController();
  plane.atEnd(async () => ending.abort());
  const hosts: ScriptedHost[] = [];
  for (let index = 0; index < HOSTS; index++)
    hosts.push(await startScriptedHost(plane.client, index, ending.signal));
  await plane.changed.until(`${HOSTS} reachable hosts`, () => reachable(plane) === HOSTS || undefined);
  const source = path.join(plane.dir, "bench.gguf");
  await writeTinyModel(source);
  await plane.createModel(source);
  await plane.createService("bench", { replicas: HOSTS, placement: { spread: "Required" } });
  await plane.changed.until(`${HOSTS} replicas`, () => plane.replicas.list().length === HOSTS || undefined);
  await plane.changed.until(`${HOSTS} slices`, () => ourSlices(plane).length === HOSTS || undefined);
  for (const replica of plane.replicas.list())
    await hosts.find(({ name }) => name === replica.spec.template.hostName)?.serve(replica);
  await plane.changed.until(`${HOSTS} ready slices`, () => serving(plane) === HOSTS || undefined);
  await plane.changed.until(
    `${HOSTS} replicas on reachable hosts`,
    () =>
      plane.replicas.list().every(({ status }) => isTrue(status?.conditions, "HostReachable")) || undefined,
  );
  return hosts;
}

/** Slices that stopped serving at any moment from now until the result is asked for. */
function countWithdrawn(plane: Plane): () => number {
  const names = new Set<string>();
  const look = () => {
    for (const slice of ourSlices(plane)) if (!isReady(slice)) names.add(slice.metadata.name);
  };
  const forget = plane.changed.listen(look);
  return () => {
    look();
    forget();
    return names.size + Math.max(0, HOSTS - ourSlices(plane).length);
  };
}

function reachable(plane: Plane): number {
  return plane.hosts.list().filter(({ status }) => isTrue(status?.conditions, "Reachable")).length;
}

function serving(plane: Plane): number {
  return ourSlices(plane).filter(isReady).length;
}

/** The endpoint-slice controller keeps an empty one of its own beside them. */
function ourSlices(plane: Plane): readonly EndpointSlice[] {
  return plane.slices.list().filter(({ metadata }) => metadata.labels?.[LABEL_HOST] !== undefined);
}

const POLL_MS = 20;
const LONG_MS = 120_000;

async function until(what: string, isSo: () => boolean): Promise<void> {
  for (const end = performance.now() + LONG_MS; !isSo(); await pause(POLL_MS))
    if (performance.now() > end) throw new Error(`waited ${LONG_MS} ms for ${what}`);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
