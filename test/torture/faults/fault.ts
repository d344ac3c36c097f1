/** What every fault is: something done to the farm, and what undoes it. */
import type { Bed } from "../bed/bed.ts";
import type { TestHost } from "../bed/host.ts";
import type { Load } from "../load/load.ts";
import type { ClusterWatch } from "../observe/cluster.ts";
import type { EngineWatch, SeenEngine } from "../observe/engines.ts";
import type { Recorder } from "../observe/recorder.ts";
import { type EngineName, type ServiceName, servicesWith } from "../plan/catalog.ts";
import type { PlannedFault } from "../plan/plan-faults.ts";

export interface FaultContext {
  readonly engine: EngineName;
  readonly bed: Bed;
  readonly recorder: Recorder;
  readonly engines: EngineWatch;
  readonly cluster: ClusterWatch;
  readonly load: Load;
}

export type Injected =
  | {
      readonly at: "done";
      /** One line for the timeline. */
      readonly detail: string;
      /** Absent where there is nothing to undo. */
      readonly heal?: () => Promise<void>;
    }
  /** There was nothing to do it to. */
  | { readonly at: "skipped"; readonly why: string };

/** Rejects only where the harness itself cannot do it. */
export type Fault = (context: FaultContext, planned: PlannedFault) => Promise<Injected>;

export function hostOf({ bed }: FaultContext, { target = "" }: PlannedFault): TestHost {
  const host = bed.hosts.get(target);
  if (host === undefined) throw new Error(`there is no host ${target}`);
  return host;
}

export function serviceOf({ target }: PlannedFault): ServiceName {
  const name = servicesWith(1).find((one) => one === target);
  if (name === undefined) throw new Error(`there is no service ${target}`);
  return name;
}

/** One of the host's engines, by the plan's chance, or of any host's where it has none. */
export function engineOf(
  { bed, engines }: FaultContext,
  { target, chance }: PlannedFault,
): (SeenEngine & { readonly host: string }) | undefined {
  engines.look();
  const all = engines.engines().filter(({ host }) => bed.hosts.has(host));
  const here = all.filter(({ host }) => host === target);
  const from = here.length > 0 ? here : all;
  return from[Math.floor(chance * from.length)];
}

/** That engine for each of its replicas: several share a daemon. */
export function sharers(
  { engines }: FaultContext,
  pid: number,
): readonly (SeenEngine & { readonly host: string })[] {
  return engines.engines().filter((engine) => engine.pid === pid);
}
