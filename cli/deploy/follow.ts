/** Follows a service until it is Ready, and prints the phases of the service, its Model and its replicas, and the downloads. */

import { lacksFile } from "../../controller/frame/scheduler/refusals.ts";
import { createDownloadBar } from "../../local/download-bar.ts";
import { type ErrorCode, errorCatalog, MetalbridgeError, remedyOf } from "../../src/api/errors.ts";
import { LABEL_SERVICE } from "../../src/api/group.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { mainModelOf } from "../../src/api/inference-service/roles.ts";
import { INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { type Download, sumOfDownloads } from "../../src/verdicts/download.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { follow } from "../cluster/follow.ts";
import { formatSpan } from "../program/age.ts";
import { printNote } from "../program/output.ts";
import { listenForStop } from "../program/stop-signals.ts";
import { printable } from "../program/table.ts";
import { rolloutProgressOf } from "../rollout/progress.ts";

/** Throws NotReadyInTime, with the last phases, and the reason of a service that failed. */
export async function followService(
  cluster: Cluster,
  { metadata, spec }: InferenceService,
  timeoutMs: number,
): Promise<void> {
  const { name } = metadata;
  const { namespace } = cluster;
  const stop = listenForStop();
  const bar = createDownloadBar(process.stderr);
  const print = (line: string): void => {
    bar.update(undefined);
    printNote(line);
  };
  const showDownload = (download: Download | undefined): void =>
    bar.update(process.stderr.isTTY ? download : undefined);
  const shown = new Map<string, string>();
  const report = (who: string, phase: string | undefined, message: string | undefined): void => {
    if (phase === undefined) return;
    const line = `${who.padEnd(40)} ${phase}${phase === "Ready" || !message ? "" : `  ${printable(message)}`}`;
    if (shown.get(who) === line) return;
    shown.set(who, line);
    print(line);
  };
  const options = { signal: stop.signal, timeoutMs, onProblem: print };
  const end = await follow<void>(cluster, options, ({ watch, finish, fail }) => {
    const models = watch(MODELS, { namespace, fieldSelector: `metadata.name=${mainModelOf(spec)}` }, () => {
      for (const { status } of models.list())
        report(`model ${mainModelOf(spec)}`, status?.phase, status?.message);
    });
    const labelSelector = `${LABEL_SERVICE}=${name}`;
    const replicas = watch(INFERENCE_REPLICAS, { namespace, labelSelector }, () => {
      for (const {
        metadata: own,
        spec: { template },
        status,
      } of replicas.list())
        report(`replica ${own.name} on ${template.hostName}`, status?.phase, status?.message);
      showDownload(sumOfDownloads(replicas.list().flatMap(({ status }) => status?.progress ?? [])));
    });
    const services = watch(INFERENCE_SERVICES, { namespace, fieldSelector: `metadata.name=${name}` }, () => {
      for (const { status } of services.list()) {
        report(`service ${name}`, status?.phase, status?.message);
        if (status?.phase === "Ready") finish();
      }
      endIfFailed();
    });
    const endIfFailed = () => {
      const [service] = services.list();
      // A file that one host lacks may be on another: the replica is rescheduled.
      if (service === undefined || replicas.list().some(lacksFile)) return;
      const { at, reason = "", message } = rolloutProgressOf(service, models.list()[0]);
      if (at === "stopped") fail(terminalFailure(service, reason, message));
    };
  }).finally(() => bar.update(undefined));
  if (end.at === "timedOut")
    throw new MetalbridgeError(
      "NotReadyInTime",
      `not Ready after ${formatSpan(timeoutMs)}: ${[...shown.values()].map((line) => line.replaceAll(/ {2,}/g, " ")).join("; ")}`,
      remedyOf("NotReadyInTime", { service: `${name} -n ${namespace}` }),
    );
  if (end.at === "finished") print(`to chat with it: metalbridge chat ${name}`);
  process.exitCode = stop.exitCode();
}

/** The code of the service, with where to look in place of the catalog's general advice. */
function terminalFailure({ metadata }: InferenceService, reason: string, message: string): MetalbridgeError {
  const { name, namespace } = metadata;
  const code = Object.hasOwn(errorCatalog, reason) ? (reason as ErrorCode) : "RolloutStopped";
  return new MetalbridgeError(code, `service ${name} cannot become Ready: ${message}`, {
    summary: "correct the cause, or delete the service; details",
    command: `metalbridge describe ${name} -n ${namespace}`,
  });
}
