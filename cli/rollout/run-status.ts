/** `metalbridge rollout status`: prints the steps of a rollout as they happen. */

import { type ErrorCode, errorCatalog, MetalbridgeError } from "../../src/api/errors.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { mainModelOf } from "../../src/api/inference-service/roles.ts";
import { INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import type { Model } from "../../src/api/model.ts";
import { keyOf } from "../../src/api/names.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { findIfPresent, findObject } from "../cluster/find.ts";
import type { ClusterFlags, OutputFormat } from "../cluster/flags.ts";
import { follow } from "../cluster/follow.ts";
import { formatSpan } from "../program/age.ts";
import { exitCodes } from "../program/exit-codes.ts";
import { printJson, printLine } from "../program/output.ts";
import { listenForStop } from "../program/stop-signals.ts";
import { type RolloutProgress, rolloutProgressOf } from "./progress.ts";

interface StatusFlags extends ClusterFlags {
  readonly watch: boolean;
  readonly timeout: number;
  readonly output: OutputFormat;
}

export async function rolloutStatus(name: string, flags: StatusFlags): Promise<void> {
  await withCluster("rollout", flags, async (cluster) => {
    const service = await findObject(cluster, INFERENCE_SERVICES, name);
    const print = flags.output === "json" ? () => {} : printLine;
    const end = flags.watch
      ? await followRollout(cluster, service, flags, print)
      : judge(service, await findIfPresent(cluster, MODELS, mainModelOf(service.spec)), print);
    if (end === undefined) return;
    if (flags.output === "json") printJson(jsonOf(end.service, end.progress));
    if (end.progress.at === "stopped") throw stopped(end.service, end.progress);
  });
}

interface Judged {
  readonly service: InferenceService;
  readonly progress: RolloutProgress;
}

function judge(service: InferenceService, model: Model | undefined, print: (line: string) => void): Judged {
  const progress = rolloutProgressOf(service, model);
  if (progress.at === "done") print(progress.message);
  if (progress.at === "moving") print(`waiting: ${progress.message}`);
  return { service, progress };
}

/** Undefined after Ctrl-C. */
async function followRollout(
  cluster: Cluster,
  found: InferenceService,
  { timeout }: StatusFlags,
  print: (line: string) => void,
): Promise<Judged | undefined> {
  const stop = listenForStop();
  const { name, namespace = "", uid } = found.metadata;
  let last = "";
  const end = await follow<Judged>(
    cluster,
    { signal: stop.signal, timeoutMs: timeout },
    ({ watch, finish, fail }) => {
      const inspect = () => {
        const service = services.get(keyOf({ namespace, name }));
        if (service === undefined || service.metadata.uid !== uid)
          return fail(new MetalbridgeError("ServiceNotFound", `service ${name} was deleted in the meantime`));
        const model = models.get(keyOf({ namespace, name: mainModelOf(service.spec) }));
        const { progress } = judge(service, model, (line) => {
          if (line !== last) print(line);
          last = line;
        });
        if (progress.at !== "moving") finish({ service, progress });
      };
      const services = watch(
        INFERENCE_SERVICES,
        { namespace, fieldSelector: `metadata.name=${name}` },
        inspect,
      );
      const models = watch(MODELS, { namespace }, inspect);
    },
  );
  if (end.at === "finished") return end.value;
  if (end.at === "timedOut") throw notFinished(name, namespace, timeout, last);
  // Also after TERM: exit code 0 would mean that the rollout is done.
  process.exitCode = exitCodes.interrupted;
  return undefined;
}

function notFinished(name: string, namespace: string, timeoutMs: number, last: string): MetalbridgeError {
  const message = `service ${name} is not rolled out after ${formatSpan(timeoutMs)}; ${last.replace(/^waiting: /, "")}`;
  return new MetalbridgeError("RolloutNotFinished", message, {
    summary: "the rollout continues; see what it is waiting for",
    command: `metalbridge describe ${name} -n ${namespace}`,
  });
}

/** Uses the reason of the service as the code, if the error catalog has it. */
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
        summary: "find the cause and correct the service",
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
