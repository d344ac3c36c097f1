/** Changes that users make during the run. They fail while the API server is away, as a user's would. */
import { setTimeout as pause } from "node:timers/promises";
import { BAD_FIELD } from "../../bed/fleet-objects.ts";
import type { ServiceName } from "../../plan/catalog.ts";
import type { PlannedFault } from "../../plan/plan-faults.ts";
import { type Fault, type FaultContext, hostOf, type Injected, serviceOf } from "../fault.ts";

/** The two values in turn: each change is a new revision for the engines. */
export const newRevision: Fault = (context, planned) =>
  tried(async () => {
    const name = serviceOf(planned);
    const before = context.cluster.services.get(`default/${name}`)?.spec.contextSize;
    const value = before === 1024 ? 768 : 1024;
    await context.bed.objects.patchService(name, "/spec/contextSize", value);
    return `${name}: contextSize ${value}`;
  });

/** All replicas and pods are replaced, by nothing but a new date. */
export const restart: Fault = (context, planned) =>
  tried(async () => {
    const name = serviceOf(planned);
    await context.bed.objects.restartService(name, new Date().toISOString());
    return `${name}: restarted`;
  });

/** Restarts nothing. */
export const priorityChange: Fault = (context, planned) =>
  tried(async () => {
    const name = serviceOf(planned);
    const value = planned.chance < 0.5 ? "high" : "low";
    await context.bed.objects.patchService(name, "/spec/priority", value);
    return `${name}: priority ${value}`;
  });

const MAX_REPLICAS = 3;

export const scale: Fault = (context, planned) =>
  tried(async () => {
    const name = serviceOf(planned);
    const value = 1 + Math.floor(planned.chance * MAX_REPLICAS);
    await context.bed.objects.patchService(name, "/spec/replicas", value);
    return `${name}: replicas ${value}`;
  });

/** Deleted with requests in flight, and made again with a model that no host has. */
export const recreate: Fault = async (context, planned) => {
  const name = serviceOf(planned);
  // First: what begins after the deletion is refused by right, but what is in flight must be answered.
  const resume = context.load.pause(name);
  const result = await tried(async () => {
    await context.bed.objects.deleteService(name);
    return `${name}: deleted`;
  });
  if (result.at === "skipped") resume();
  return result.at === "skipped" ? result : { ...result, heal: () => createAgain(context, name, planned.id) };
};

const RETRY_MS = 500;

/** Retries until the old service is gone and the API server is there; the caller does not wait. */
async function createAgain({ bed }: FaultContext, name: ServiceName, generation: number): Promise<void> {
  void persistently(() => bed.objects.createService(name, generation));
}

/** A revision that no engine accepts: the old one has to keep serving until it is corrected. */
export const badRevision: Fault = async (context, planned) => {
  const name = serviceOf(planned);
  const { field, good, bad } = BAD_FIELD[context.engine];
  const set = (value: unknown) => context.bed.objects.patchService(name, `/spec/${field}`, value);
  const result = await tried(async () => {
    await set(bad);
    return `${name}: ${field} ${bad}`;
  });
  return result.at === "skipped" ? result : { ...result, heal: () => persistently(() => set(good)) };
};

/** Nothing new goes there. */
export const cordon: Fault = (context, planned) => onHost(context, planned, "unschedulable");

/** What runs there goes elsewhere, and is drained once the new one serves. */
export const drain: Fault = (context, planned) => onHost(context, planned, "drain");

async function onHost(context: FaultContext, planned: PlannedFault, field: string): Promise<Injected> {
  const host = hostOf(context, planned).name;
  const set = (value: boolean) => context.bed.objects.patchHost(host, `/spec/${field}`, value);
  const result = await tried(async () => {
    await set(true);
    return host;
  });
  return result.at === "skipped" ? result : { ...result, heal: () => persistently(() => set(false)) };
}

export async function persistently(act: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      return await act();
    } catch {
      await pause(RETRY_MS);
    }
  }
}

export async function tried(act: () => Promise<string>): Promise<Injected> {
  try {
    return { at: "done", detail: await act() };
  } catch (error) {
    return { at: "skipped", why: error instanceof Error ? error.message : String(error) };
  }
}
