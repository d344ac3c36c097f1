/** The control plane goes and comes back under fifty hosts whose engines are healthy: none may be withdrawn. */
import { setTimeout as pause } from "node:timers/promises";
import { until } from "../../../test/bed/until.ts";
import { measured, type ScenarioResult } from "../beds/measurement.ts";
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

export async function measureControlPlaneRestart(): Promise<readonly ScenarioResult[]> {
  const spec = { placement: { spread: "Required" } };
  await using plane = await openScriptedFleet({ hosts: HOSTS, services: 1, replicas: HOSTS, spec });
  const { fleet: hosts, controller, startController } = plane;
  const withdrawn: number[] = [];
  const returns: number[] = [];
  for (const { awayMs, endsController } of OUTAGES) {
    const before = hosts.map(({ renewals }) => renewals());
    const withdrawnSince = countWithdrawn(plane);
    await plane.controlPlane.stopApiServer();
    if (endsController) await controller().kill("SIGKILL");
    await pause(awayMs);
    await plane.controlPlane.startApiServer();
    const backAt = performance.now();
    if (endsController) startController();
    await until(
      () => {
        const isRenewed = hosts.every(({ renewals }, index) => renewals() > (before[index] ?? 0));
        if (!isRenewed) throw new Error("not every Lease is renewed");
      },
      { everyMs: 20 },
    );
    returns.push(performance.now() - backAt);
    await pause(WATCH_MS);
    withdrawn.push(withdrawnSince());
  }
  const name = `control plane restarted, ${HOSTS} hosts`;
  return [
    measured(`${name}: slices withdrawn`, "slices", withdrawn, { max: 0 }),
    measured(`${name}: API server ready → all Leases renewed`, "ms", returns),
  ];
}
