/** `metalbridge rollout`: status, history, undo and restart of the rollout of a service. */
import type { Command } from "commander";
import { getCondition } from "../src/api/conditions.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { ANNOTATION_RESTARTED_AT, LABEL_SERVICE_UID } from "../src/api/group.ts";
import type { InferenceService } from "../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES, MODELS } from "../src/api/kinds.ts";
import { renderChange } from "../src/capacity/rollback/changes.ts";
import { type HistoryEntry, historyOf } from "../src/capacity/rollback/history.ts";
import { chooseRevision, planUndo, restorable, type UndoPlan } from "../src/capacity/rollback/undo.ts";
import { revisionHistoryLimit } from "../src/capacity/template.ts";
import { CONTROLLER_REVISIONS } from "../src/kube/kinds.ts";
import { isoSeconds } from "../src/util/iso-seconds.ts";
import { type Cluster, withCluster } from "./cluster/cluster.ts";
import { explainAttempt, patchObject } from "./cluster/failure.ts";
import { findIfPresent, findObject, listAll } from "./cluster/find.ts";
import {
  addNamespacedFlags,
  booleanOption,
  type ClusterFlags,
  countParser,
  type OutputFormat,
  outputFlag,
  parseServiceName,
  timeoutOption,
} from "./cluster/flags.ts";
import { printLine, printNote, printResult } from "./program/output.ts";
import { renderHistory, renderRevision } from "./rollout/render.ts";
import { rolloutStatus } from "./rollout/run-status.ts";

const SERVICE = ["<service>", "name of the InferenceService"] as const;

/** Subcommands, options and actions of the verb. */
export function configureRollout(command: Command): void {
  addNamespacedFlags(command.command("status"))
    .description("Follow the rollout of a service until it is done")
    .argument(...SERVICE, parseServiceName)
    .addOption(booleanOption("--watch", "wait until the rollout is done or stopped"))
    .addOption(timeoutOption("stop waiting after this time", "0"))
    .addOption(outputFlag())
    .action(rolloutStatus);
  addNamespacedFlags(command.command("history"))
    .description("List the revisions of a service")
    .argument(...SERVICE, parseServiceName)
    .option("--revision <number>", "show the details of one revision", countParser(1))
    .addOption(outputFlag())
    .action(rolloutHistory);
  addNamespacedFlags(command.command("restart"))
    .description(
      "Replace the pods of a service, with the current images and defaults of the controller, or update a service, also on hosts, to its BackendRuntime",
    )
    .argument(...SERVICE, parseServiceName)
    .action(rolloutRestart);
  addNamespacedFlags(command.command("undo"))
    .description("Roll back to an earlier revision of a service")
    .argument(...SERVICE, parseServiceName)
    .option(
      "--to-revision <number>",
      "revision to roll back to; 0 means the serving revision during a rollout, else the previous revision",
      countParser(0),
      0,
    )
    .option("--dry-run", "print the changes without applying them")
    .addOption(outputFlag())
    .action(rolloutUndo);
}

interface HistoryFlags extends ClusterFlags {
  readonly revision?: number;
  readonly output: OutputFormat;
}

/** `metalbridge rollout history`: lists the revisions of a service. */
async function rolloutHistory(name: string, flags: HistoryFlags): Promise<void> {
  await withCluster("rollout", flags, async (cluster) => {
    const { service, history } = await readServiceHistory(cluster, name);
    const chosen =
      flags.revision === undefined ? undefined : chooseRevision(service, history, flags.revision);
    printResult(flags.output, chosen ?? history, () =>
      chosen === undefined
        ? renderHistory(history, revisionHistoryLimit(service.spec), Date.now())
        : renderRevision(chosen),
    );
  });
}

/** `metalbridge rollout restart`: replaces the pods of a service, or updates it to its BackendRuntime, without a change of its spec. */
async function rolloutRestart(name: string, flags: ClusterFlags): Promise<void> {
  await withCluster("rollout", flags, async (cluster) => {
    const service = await findObject(cluster, INFERENCE_SERVICES, name);
    const { metadata, spec, status } = service;
    const isOutdated = getCondition(status?.conditions, "BackendRuntimeCurrent")?.reason === "UpdatePending";
    if (status?.on === "Hosts" && !isOutdated)
      throw new MetalbridgeError("RestartNotInPods", `service ${name} has replicas on hosts only`);
    const path = `/metadata/annotations/${ANNOTATION_RESTARTED_AT.replace("/", "~1")}`;
    const empty = { op: "add", path: "/metadata/annotations", value: {} } as const;
    await patchObject(cluster, INFERENCE_SERVICES, service, [
      ...(metadata.annotations === undefined ? [empty] : []),
      { op: "add", path, value: isoSeconds(Date.now()) },
    ]);
    const replaced = isOutdated
      ? `service ${name} is updated to the current revision of BackendRuntime ${spec.backendRuntime?.name}`
      : `the pods of service ${name} are being replaced`;
    printLine(`${replaced}\nto follow it: metalbridge rollout status ${name} -n ${cluster.namespace}`);
  });
}

interface UndoFlags extends ClusterFlags {
  readonly toRevision: number;
  readonly dryRun?: boolean;
  readonly output: OutputFormat;
}

/** `metalbridge rollout undo`: restores the spec of an earlier revision. */
async function rolloutUndo(name: string, flags: UndoFlags): Promise<void> {
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

interface ServiceHistory {
  readonly service: InferenceService;
  /** Oldest first. */
  readonly history: readonly HistoryEntry[];
}

/** Reads a service and its revisions from the API server. */
async function readServiceHistory(cluster: Cluster, name: string): Promise<ServiceHistory> {
  const service = await findObject(cluster, INFERENCE_SERVICES, name);
  const revisions = await listAll(cluster, CONTROLLER_REVISIONS, {
    namespace: cluster.namespace,
    labelSelector: `${LABEL_SERVICE_UID}=${service.metadata.uid}`,
  });
  return { service, history: historyOf(service, revisions) };
}
