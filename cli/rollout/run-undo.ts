/** `metalbridge rollout undo`: restores the spec of an earlier revision. */

import { MetalbridgeError } from "../../src/api/errors.ts";
import { INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { renderChange } from "../../src/capacity/rollback/changes.ts";
import { chooseRevision, planUndo, restorable, type UndoPlan } from "../../src/capacity/rollback/undo.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { explainAttempt } from "../cluster/failure.ts";
import { findIfPresent } from "../cluster/find.ts";
import type { ClusterFlags, OutputFormat } from "../cluster/flags.ts";
import { printNote, printResult } from "../program/output.ts";
import { readServiceHistory } from "./read.ts";

interface UndoFlags extends ClusterFlags {
  readonly toRevision: number;
  readonly dryRun?: boolean;
  readonly output: OutputFormat;
}

export async function rolloutUndo(name: string, flags: UndoFlags): Promise<void> {
  await withCluster("rollout", flags, async (cluster) => {
    const plan = await undo(cluster, name, flags);
    for (const note of plan.notes) printNote(`note: ${note}`);
    printResult(flags.output, jsonOf(plan), () => render(cluster, name, plan, flags));
  });
}

async function undo(cluster: Cluster, name: string, flags: UndoFlags): Promise<UndoPlan> {
  const { service, history } = await readServiceHistory(cluster, name);
  const target = chooseRevision(service, history, flags.toRevision);
  const plan = planUndo(
    service,
    target,
    await findIfPresent(cluster, MODELS, restorable(service, target).model.name),
  );
  if (plan.operations.length === 0 || flags.dryRun === true) return plan;
  const { client, namespace } = cluster;
  const result = await client.jsonPatch(INFERENCE_SERVICES, { name, namespace }, plan.operations);
  if (result.ok) return plan;
  if (result.error.kind === "conflict") throw changedMeanwhile(name, namespace);
  throw explainAttempt({ verb: "patch", kind: INFERENCE_SERVICES, name, namespace }, result.error);
}

/** The user requested the undo for the previous spec, and must review the changed one. */
function changedMeanwhile(name: string, namespace: string): MetalbridgeError {
  return new MetalbridgeError(
    "ApiObjectConflict",
    `service ${name} was changed by another client in the meantime`,
    {
      summary: "nothing was written; review the service first",
      command: `metalbridge rollout history ${name} -n ${namespace}`,
    },
  );
}

function jsonOf({ target, changes, notes }: UndoPlan): object {
  return { revision: target.revision, hash: target.hash, changes, notes };
}

function render(
  { namespace }: Cluster,
  name: string,
  { target, changes }: UndoPlan,
  flags: UndoFlags,
): string {
  const { revision, hash } = target;
  if (changes.length === 0)
    return `nothing to undo: service ${name} already has the spec of revision ${revision} (${hash})`;
  const verb = flags.dryRun === true ? "would roll back" : "rolls back";
  const head = `service ${name} ${verb} to revision ${revision} (${hash})`;
  const lines = changes.map((change) => `  ${renderChange(change)}`);
  const next =
    flags.dryRun === true ? [] : [`to follow it: metalbridge rollout status ${name} -n ${namespace}`];
  return [head, ...lines, ...next].join("\n");
}
