/** `metalbridge rollout status`: prints each step of a rollout as it happens. */

import { type ErrorCode, errorCatalog, MetalbridgeError } from "../../src/api/errors.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import type { Model } from "../../src/api/model.ts";
import { keyOf } from "../../src/api/names.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { findIfPresent, findService } from "../cluster/find.ts";
import type { ClusterFlags, OutputFormat } from "../cluster/flags.ts";
import { follow } from "../cluster/follow.ts";
import { formatSpan } from "../program/age.ts";
import { exitCodes } from "../program/exit-codes.ts";
import { writeErr, writeOut } from "../program/output.ts";
import { listenForStop } from "../program/stop-signals.ts";
import { type RolloutProgress, rolloutProgressOf } from "./progress.ts";

interface StatusFlags extends ClusterFlags {
  readonly watch: boolean;
  readonly timeout: number;
  readonly output: OutputFormat;
}

export async function rolloutStatus(name: string, flags: StatusFlags): Promise<void> {
  await withCluster("rollout", flags, async (cluster) => {
    const service = await findService(cluster, name);
    const tell = flags.output === "json" ? () => {} : say;
    const end = flags.watch
      ? await followRollout(cluster, service, flags, tell)
      : await judgeOnce(cluster, service, tell);
    if (end === undefined) return;
    if (flags.output === "json") say(JSON.stringify(jsonOf(end.service, end.progress), undefined, 2));
    if (end.progress.at === "stopped") throw stopped(end.service, end.progress);
  });
}

interface Judged {
  readonly service: InferenceService;
  readonly progress: RolloutProgress;
}

async function judgeOnce(
  cluster: Cluster,
  service: InferenceService,
  tell: (line: string) => void,
): Promise<Judged> {
  return judge(service, await findIfPresent(cluster, MODELS, service.spec.modelRef), tell);
}

function judge(service: InferenceService, model: Model | undefined, tell: (line: string) => void): Judged {
  const progress = rolloutProgressOf(service, model);
  if (progress.at === "done") tell(progress.message);
  if (progress.at === "moving") tell(`waiting: ${progress.message}`);
  return { service, progress };
}

/** Undefined after Ctrl-C. */
async function followRollout(
  cluster: Cluster,
  found: InferenceService,
  { timeout }: StatusFlags,
  tell: (line: string) => void,
): Promise<Judged | undefined> {
  const stop = listenForStop();
  const { name, namespace = "", uid } = found.metadata;
  let last = "";
  const options = { signal: stop.signal, timeoutMs: timeout, tellTrouble: sayAside };
  const end = await follow<Judged>(cluster, options, ({ watch, finish, fail }) => {
    const look = () => {
      if (!services.isSynced() || !models.isSynced()) return;
      const service = services.get(keyOf({ namespace, name }));
      if (service === undefined || service.metadata.uid !== uid) return fail(deleted(name));
      const model = models.get(keyOf({ namespace, name: service.spec.modelRef }));
      const { progress } = judge(service, model, (line) => {
        if (line !== last) tell(line);
        last = line;
      });
      if (progress.at !== "moving") finish({ service, progress });
    };
    const services = watch(INFERENCE_SERVICES, { namespace, fieldSelector: `metadata.name=${name}` }, look);
    const models = watch(MODELS, { namespace }, look);
  });
  switch (end.how) {
    case "finished":
      return end.value;
    case "late":
      throw late(name, namespace, timeout, last);
    case "stopped":
      // Also after TERM: 0 would say that it is rolled out.
      process.exitCode = exitCodes.interrupted;
      return undefined;
    default:
      return end satisfies never;
  }
}

function deleted(name: string): MetalbridgeError {
  return new MetalbridgeError("ServiceNotFound", `service ${name} was deleted meanwhile`);
}

function late(name: string, namespace: string, timeoutMs: number, last: string): MetalbridgeError {
  const message = `service ${name} is not rolled out after ${formatSpan(timeoutMs)}; ${last.replace(/^waiting: /, "")}`;
  return new MetalbridgeError("RolloutNotFinished", message, {
    summary: "the rollout continues; see what it waits for",
    command: `metalbridge describe ${name} -n ${namespace}`,
  });
}

/** The service's own code where the catalog has it, with its remedy. */
function stopped(
  { metadata, status }: InferenceService,
  { reason, message }: RolloutProgress,
): MetalbridgeError {
  const { name, namespace } = metadata;
  const sentence = `the rollout of service ${name} has stopped: ${message}`;
  if (reason !== "RolloutStopped") {
    const code = reason !== undefined && reason in errorCatalog ? (reason as ErrorCode) : "RolloutStopped";
    return new MetalbridgeError(code, sentence);
  }
  const { currentRevision, updateRevision } = status ?? {};
  const isOldServing = currentRevision !== undefined && currentRevision !== updateRevision;
  const remedy = isOldServing
    ? {
        summary: "the old revision keeps serving; fix the service, or roll back",
        command: `metalbridge rollout undo ${name} -n ${namespace}`,
      }
    : {
        summary: "see why, and correct the service",
        command: `metalbridge describe ${name} -n ${namespace}`,
      };
  return new MetalbridgeError("RolloutStopped", sentence, remedy);
}

function jsonOf({ metadata, status }: InferenceService, progress: RolloutProgress): object {
  const { replicas, updatedReplicas, readyReplicas, desiredReplicas, currentRevision, updateRevision } =
    status ?? {};
  return {
    name: metadata.name,
    namespace: metadata.namespace,
    ...progress,
    replicas,
    updatedReplicas,
    readyReplicas,
    desiredReplicas,
    currentRevision,
    updateRevision,
  };
}

function say(line: string): void {
  writeOut(`${line}\n`);
}

function sayAside(line: string): void {
  writeErr(`${line}\n`);
}
