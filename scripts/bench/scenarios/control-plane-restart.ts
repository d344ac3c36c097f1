/** The control plane goes and comes back under fifty hosts whose engines are healthy: none may be withdrawn. */
import type { Measurement } from "../beds/measurement.ts";
import { countWithdrawn, openScriptedFleet } from "../beds/scripted-fleet.ts";

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
  const spec = { placement: { spread: "Required" } };
  await using plane = await openScriptedFleet({ hosts: HOSTS, services: 1, replicas: HOSTS, spec });
  const { fleet: hosts, controller, startController } = plane;
  const withdrawn: number[] = [];
  const returns: number[] = [];
  for (const { awayMs, endsController } of OUTAGES) {
    const before = hosts.map(({ renewals }) => renewals());
    const gone = countWithdrawn(plane);
    await plane.controlPlane.stopApiServer();
    if (endsController) await controller().kill("SIGKILL");
    await pause(awayMs);
    await plane.controlPlane.startApiServer();
    const backAt = performance.now();
    if (endsController) startController();
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

const POLL_MS = 20;
const LONG_MS = 120_000;

async function until(what: string, isSo: () => boolean): Promise<void> {
  for (const end = performance.now() + LONG_MS; !isSo(); await pause(POLL_MS))
    if (performance.now() > end) throw new Error(`waited ${LONG_MS} ms for ${what}`);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
