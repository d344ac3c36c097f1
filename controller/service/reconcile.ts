/**
 * One pass over one InferenceService, whatever path runs it: sweep, tear down or reconcile, then its status.
 */
import { setCondition } from "../../src/api/conditions.ts";
import type { InferenceService, InferenceServiceStatus } from "../../src/api/inference-service/index.ts";
import type { RunsOn } from "../../src/api/inference-service/rollout.ts";
import type { Recheck } from "../../src/kube/queue.ts";
import type { KubeObject } from "../../src/kube/types.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import { truncate } from "../../src/util/text.ts";
import { applyServiceSteps } from "./apply/apply.ts";
import { PartialRejection } from "./apply/rejection.ts";
import { removeOrphans } from "./orphans.ts";
import { type ObservedService, observeService } from "./owned/observe.ts";
import { planTeardown } from "./owned/teardown.ts";
import { choosePath, type LiveService, modelKeyOf, soonest } from "./path.ts";
import type { ServicePorts } from "./ports.ts";
import { writeStatus } from "./status.ts";

const BEHIND_MS = 1_000;
const MAX_MESSAGE = 4096;

/** `key` is `namespace/name`. Throws where only a retry helps. */
export async function reconcileService(ports: ServicePorts, key: string): Promise<Recheck | undefined> {
  const seen = observeService(ports.watches, key);
  const { service, own } = seen;
  const behind = await removeOrphans(ports, key, seen);
  if (service !== undefined && service.metadata.deletionTimestamp === undefined)
    return serve(ports, { key, service, own });
  ports.foreign.forget(key);
  ports.retries.forget(key);
  ports.lastStatus.delete(key);
  for (const path of ports.paths) path.release(key, service === undefined);
  return service === undefined ? behind : ((await tearDown(ports, service, seen)) ?? behind);
}

async function tearDown(
  ports: ServicePorts,
  service: InferenceService,
  { own }: ObservedService,
): Promise<Recheck | undefined> {
  const steps = planTeardown(own, "the InferenceService is being deleted", service);
  const { rejections, isBehind } = await applyServiceSteps(ports, steps);
  if (rejections.length > 0) throw new PartialRejection(rejections);
  return isBehind ? { recheckAfterMs: BEHIND_MS } : undefined;
}

/** Until then what served before, on another path, serves on. */
const NEEDS_NO_OTHER = new Set<InferenceServiceStatus["phase"]>(["Ready", "Stopped", "Suspended"]);

async function serve(ports: ServicePorts, live: LiveService): Promise<Recheck | undefined> {
  const { key, service } = live;
  const chosen = choosePath(ports.paths, live, ports.watches.models.get(modelKeyOf(service)));
  const others = ports.paths.filter((path) => path !== chosen && chosen.parts?.includes(path) !== true);
  // A path of several parts releases them, so it is asked only for what it has of its own.
  for (const path of others) if (path.parts === undefined) path.release(key, false);
  const { status, obstacle, rejections, recheckAfterMs } = await chosen.reconcile(live);
  if (obstacle.at === "nameTaken") await leaveForeignService(ports, live);
  else ports.foreign.forget(key);
  const elsewhere = others.reduce((sum, path) => sum + path.serving(live.own), 0);
  const shown = elsewhere === 0 ? status : servedElsewhere(ports, service, status, elsewhere, chosen.on);
  const complete = { ...withMoving(ports, live, shown), on: runningOn(live) ?? chosen.on };
  await writeStatus(ports, service, complete);
  if (NEEDS_NO_OTHER.has(status.phase)) {
    await applyServiceSteps(
      ports,
      others.flatMap((path) => path.leave(live.own)),
    );
  }
  const retryMs = ports.retries.afterMs(key, rejections.length > 0, ports.clock.monotonicMs());
  return soonest([retryMs, recheckAfterMs]);
}

/** A service that moves is available by what serves on the other path until its new replicas do. */
function servedElsewhere(
  { clock }: ServicePorts,
  service: InferenceService,
  status: InferenceServiceStatus,
  count: number,
  to: RunsOn,
): InferenceServiceStatus {
  if (NEEDS_NO_OTHER.has(status.phase)) return status;
  const [what, where] = to === "Hosts" ? ["pods", "hosts"] : ["replicas on hosts", "pods"];
  const text = `${count} existing ${what} serve until the service is Ready on ${where}`;
  const { observedGeneration, conditions = [] } = status;
  const update = {
    ...({ type: "Available", status: "True", reason: "ServedElsewhere", message: text } as const),
    observedGeneration,
  };
  // From what was written last: the path has set it to False, and would move its time in each pass.
  const before = service.status?.conditions?.filter(({ type }) => type === update.type);
  const available = setCondition(before, update, isoSeconds(clock.nowMs()));
  return {
    ...status,
    message: truncate(`${text}; ${status.message ?? ""}`, MAX_MESSAGE),
    conditions: conditions.flatMap((one) => (one.type === update.type ? available : one)),
  };
}

/** Only while replicas move to better machines. */
function withMoving(
  { moving, clock }: ServicePorts,
  { key, service }: LiveService,
  status: InferenceServiceStatus,
): InferenceServiceStatus {
  const whys = moving.from(key).map(({ because }) => because);
  if (whys.length === 0) return status;
  const update = {
    ...({ type: "Moving", status: "True", reason: "FitnessFell" } as const),
    message: truncate(whys.join("; "), MAX_MESSAGE),
    observedGeneration: service.metadata.generation,
  };
  const before = service.status?.conditions?.filter(({ type }) => type === update.type);
  const own = setCondition(before, update, isoSeconds(clock.nowMs()));
  const conditions = [...(status.conditions ?? []), ...own].sort((a, b) => (a.type < b.type ? -1 : 1));
  return { ...status, conditions };
}

/** Undefined without replicas. */
function runningOn({ own }: LiveService): string | undefined {
  const hasLive = (objects: readonly KubeObject[]) =>
    objects.some(({ metadata }) => metadata.deletionTimestamp === undefined);
  const on = [...(hasLive(own.replicas) ? ["Hosts"] : []), ...(hasLive(own.pods) ? ["Pods"] : [])];
  return on.length === 0 ? undefined : on.join("+");
}

/** A slice that carries the name of a foreign Service would send its traffic to our engines. */
async function leaveForeignService(ports: ServicePorts, { key, own }: LiveService): Promise<void> {
  ports.foreign.watch(key);
  const because = "the Service of this name is not ours";
  await applyServiceSteps(
    ports,
    own.slices.map((object) => ({ do: "remove", what: "slices", object, because })),
  );
}
