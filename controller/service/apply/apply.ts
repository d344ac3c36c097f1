/** Runs the steps of a pass in an order in which a crash between any two steps is harmless. */
import { type OwnedKind, ownedRow } from "../owned/kinds.ts";
import type { ServiceStep } from "../owned/steps.ts";
import { applyObject } from "./apply-object.ts";
import { create } from "./create.ts";
import { addFinalizer, removeFinalizer } from "./finalizer.ts";
import {
  type ApplyOutcome,
  type ApplyRun,
  newApplyRun,
  recordResult,
  reject,
  type StepPorts,
} from "./run.ts";

type OwnedStep = Exclude<ServiceStep, { readonly do: "addFinalizer" | "removeFinalizer" }>;

/**
 * The finalizer comes first, so that everything created is cleaned up, and at the same time the Service, because a slice may carry
 * its name only once the Service is known to be ours: the first replica waits for both. A Service that is created while the
 * finalizer is refused is removed as an orphan. Replicas are removed before others are created, so that there are never more than
 * planned.
 */
export async function applyServiceSteps(
  ports: StepPorts,
  steps: readonly ServiceStep[],
): Promise<ApplyOutcome> {
  const owned = steps.filter(isOwned);
  const planned = new Set(owned.filter(isReplicaCreate).map(({ object }) => object.metadata.name));
  const run = newApplyRun(planned);
  const finalizers = steps.flatMap((step) => (step.do === "addFinalizer" ? [step.service] : []));
  const isService = ({ what }: OwnedStep) => what === "kubeServices";
  const [isAdded] = await Promise.all([
    Promise.all(finalizers.map((service) => addFinalizer(ports, run, service))),
    ...owned.filter(isService).map((step) => applyOwned(ports, run, step)),
  ]);
  if (isAdded.includes(false)) return run;
  const parts = [
    owned.filter(isReplicaRemoval),
    owned.filter(isReplicaCreate),
    owned.filter((step) => !isService(step) && !isReplicaCreate(step) && !isReplicaRemoval(step)),
  ];
  for (const part of parts) await Promise.all(part.map((step) => applyOwned(ports, run, step)));
  for (const step of steps)
    if (step.do === "removeFinalizer") await removeFinalizer(ports, run, step.service);
  return run;
}

function isOwned(step: ServiceStep): step is OwnedStep {
  return step.do !== "addFinalizer" && step.do !== "removeFinalizer";
}

function isReplicaCreate(step: OwnedStep): boolean {
  return step.what === "replicas" && step.do === "create";
}

function isReplicaRemoval(step: OwnedStep): boolean {
  return step.what === "replicas" && step.do === "remove";
}

async function applyOwned(ports: StepPorts, run: ApplyRun, step: OwnedStep): Promise<void> {
  switch (step.do) {
    case "create":
      return mustWait(run, step.what) ? undefined : create(ports, run, step.what, step.object);
    case "patch":
      return recordResult(
        run,
        `change ${ownedRow(step.what).kind.kind} ${step.object.metadata.name}`,
        await ports.client.jsonPatch(ownedRow(step.what).kind, step.object.metadata, step.operations),
      );
    case "remove":
      return remove(ports, run, step);
    case "apply":
      return mustWait(run, step.what) ? undefined : applyObject(ports, run, step);
    default:
      return step satisfies never;
  }
}

function mustWait({ obstacle, isWithoutService }: ApplyRun, what: OwnedKind): boolean {
  return obstacle.at !== "none" || (isWithoutService && ownedRow(what).needsService === true);
}

async function remove(
  { client, log }: StepPorts,
  run: ApplyRun,
  step: Extract<OwnedStep, { do: "remove" }>,
): Promise<void> {
  const { kind } = ownedRow(step.what);
  const { name, uid } = step.object.metadata;
  const result = await client.remove(kind, step.object.metadata, { uid, propagation: "Background" });
  if (result.ok && step.what === "replicas") {
    run.removed.push({ replica: step.object, because: step.because });
    log.info({ replica: name, because: step.because }, "replica removed");
  }
  if (result.ok || result.error.kind === "notFound" || result.error.kind === "conflict") return;
  reject(run, `delete ${kind.kind} ${name}`, result.error);
}
