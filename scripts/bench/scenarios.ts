/** Every scenario by the name that `--only` takes. */
import { openBed } from "./beds/bed.ts";
import type { ScenarioResult } from "./beds/measurement.ts";
import { measureAddressChanges } from "./scenarios/address.ts";
import { measureAdmission } from "./scenarios/admission.ts";
import { measureAdoption } from "./scenarios/adopt.ts";
import { measureBackends } from "./scenarios/backends.ts";
import { measureConsole } from "./scenarios/console/console.ts";
import { measureControlPlaneRestart } from "./scenarios/control-plane-restart.ts";
import { measureDaemon } from "./scenarios/daemon.ts";
import { measureDensity } from "./scenarios/density.ts";
import { measureDrains } from "./scenarios/drain.ts";
import { measureFleet } from "./scenarios/fleet.ts";
import { measureGate } from "./scenarios/gate.ts";
import { measureGateway } from "./scenarios/gateway/gateway.ts";
import { measureHostBenchmark } from "./scenarios/host-benchmark.ts";
import { measureIdle, measureIdleAsMac, measureIdleWithOrder } from "./scenarios/idle.ts";
import { measureInstall } from "./scenarios/install.ts";
import { measurePeer } from "./scenarios/peer.ts";
import { measurePods } from "./scenarios/pods.ts";
import { measureRecovery } from "./scenarios/recovery.ts";
import { measureRollout } from "./scenarios/rollout.ts";
import { measureScheduling } from "./scenarios/scheduling.ts";
import { measureSources } from "./scenarios/sources.ts";
import { measureStarts } from "./scenarios/start.ts";
import { measureUpgrade } from "./scenarios/upgrade.ts";
import { measureWithdrawals } from "./scenarios/withdraw.ts";

export interface BenchOptions {
  readonly engines: number;
  readonly idleMinutes: number;
  readonly downloadGb: number;
  readonly hosts: number;
  readonly services: number;
}

type Scenario = (options: BenchOptions) => Promise<readonly ScenarioResult[]>;

export const scenarios: Readonly<Record<string, Scenario>> = {
  engines: measureEngines,
  peer: ({ downloadGb }) => measurePeer(downloadGb * 1e9),
  sources: ({ downloadGb }) => measureSources(downloadGb * 1e9),
  drain: measureDrains,
  recovery: measureRecovery,
  rollout: measureRollout,
  upgrade: measureUpgrade,
  install: measureInstall,
  restart: measureControlPlaneRestart,
  address: measureAddressChanges,
  gate: measureGate,
  gateway: measureGateway,
  daemon: measureDaemon,
  fleet: measureFleet,
  pods: measurePods,
  backends: measureBackends,
  admission: measureAdmission,
  density: measureDensity,
  console: measureConsole,
  scheduling: async () => [...(await measureScheduling()), ...(await measureHostBenchmark())],
};

/** In this order: each needs what the one before left running. */
async function measureEngines({ engines, idleMinutes }: BenchOptions): Promise<readonly ScenarioResult[]> {
  await using bed = await openBed();
  const starts = await measureStarts(bed, engines);
  const own = await measureWithdrawals(bed, "engine killed → slice withdrawn");
  const adoption = await measureAdoption(bed);
  const adopted = await measureWithdrawals(bed, "adopted engine killed → slice withdrawn");
  const idle = await measureIdle(bed, idleMinutes);
  const ordered = await measureIdleWithOrder(bed, idleMinutes);
  const mac = await measureIdleAsMac(bed, idleMinutes);
  return [...starts, own, adoption, adopted, ...idle, ...ordered, ...mac];
}
