/** `metalbridge delete`: deletes a service, and with --with-model its Model, unless another service uses the Model. */

import type { Command } from "commander";
import { MetalbridgeError } from "../src/api/errors.ts";
import type { InferenceService } from "../src/api/inference-service/index.ts";
import { allModelsOf, mainModelOf } from "../src/api/inference-service/roles.ts";
import { INFERENCE_SERVICES, MODELS } from "../src/api/kinds.ts";
import { keyOf } from "../src/api/names.ts";
import type { Kind, KubeObject } from "../src/kube/types.ts";
import { type Cluster, withCluster } from "./cluster/cluster.ts";
import { explainAttempt } from "./cluster/failure.ts";
import { findObject, listAll } from "./cluster/find.ts";
import {
  addNamespacedFlags,
  booleanOption,
  type ClusterFlags,
  parseServiceName,
  timeoutOption,
} from "./cluster/flags.ts";
import { follow } from "./cluster/follow.ts";
import { formatSpan } from "./program/age.ts";
import { confirm } from "./program/confirm.ts";
import { printLine } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface Flags extends ClusterFlags {
  readonly yes?: boolean;
  readonly withModel?: boolean;
  readonly wait: boolean;
  readonly timeout: number;
}

/** Options and action of the verb. */
export function configureDelete(command: Command): void {
  addNamespacedFlags(command)
    .argument("<service>", "name of the InferenceService", parseServiceName)
    .option("--yes", "skip the confirmation")
    .option("--with-model", "also delete the Model of the service, unless another service uses it")
    .addOption(timeoutOption("stop waiting after this time (the deletion continues)", "10m"))
    .addOption(booleanOption("--wait", "wait until the engines are drained and the service is deleted"))
    .action(deleteService);
}

async function deleteService(name: string, flags: Flags): Promise<void> {
  await withCluster("delete", flags, async (cluster) => {
    const service = await findObject(cluster, INFERENCE_SERVICES, name);
    const what =
      flags.withModel === true ? `service ${name} and Model ${mainModelOf(service.spec)}` : `service ${name}`;
    if (flags.yes !== true) await confirm(`delete ${what} in namespace ${cluster.namespace}?`);
    await remove(cluster, INFERENCE_SERVICES, service);
    printLine(`service ${name} is being deleted: its replicas are drained, then stopped`);
    if (flags.withModel === true) await removeModel(cluster, service);
    if (flags.wait) await followDeletion(cluster, service, flags.timeout);
  });
}

async function remove({ client }: Cluster, kind: Kind<KubeObject>, { metadata }: KubeObject): Promise<void> {
  const { name, namespace, uid } = metadata;
  const result = await client.remove(kind, { name, namespace }, uid === undefined ? {} : { uid });
  if (result.ok || result.error.kind === "notFound") return;
  throw explainAttempt({ verb: "delete", kind, name, namespace }, result.error);
}

async function removeModel(cluster: Cluster, { metadata, spec }: InferenceService): Promise<void> {
  const name = mainModelOf(spec);
  const { namespace = "default" } = metadata;
  const services = await listAll(cluster, INFERENCE_SERVICES, { namespace });
  const users = services.filter((other) => other.metadata.uid !== metadata.uid && usesModel(other, name));
  if (users.length > 0)
    return printLine(
      `model ${name} is retained: ${users.map((user) => user.metadata.name).join(", ")} uses it`,
    );
  await remove(cluster, MODELS, { metadata: { name, namespace } });
  printLine(`model ${name} is deleted; hosts keep its files until they need the space`);
}

function usesModel({ spec }: InferenceService, name: string): boolean {
  return allModelsOf(spec).includes(name);
}

async function followDeletion(
  cluster: Cluster,
  { metadata }: InferenceService,
  timeoutMs: number,
): Promise<void> {
  const { name, namespace = "default", uid } = metadata;
  const stop = listenForStop();
  const fieldSelector = `metadata.name=${name}`;
  let shown = "";
  const end = await follow<void>(cluster, { signal: stop.signal, timeoutMs }, ({ watch, finish }) => {
    const services = watch(INFERENCE_SERVICES, { namespace, fieldSelector }, () => {
      const now = services.get(keyOf({ namespace, name }));
      if (now === undefined || now.metadata.uid !== uid) return finish();
      const message = now.status?.message ?? "";
      if (message !== "" && message !== shown) printLine(message);
      shown = message;
    });
  });
  if (end.at === "finished") return printLine(`service ${name} is deleted`);
  if (end.at === "timedOut")
    throw new MetalbridgeError(
      "DeletionNotFinished",
      `service ${name} still exists after ${formatSpan(timeoutMs)}`,
    );
  printLine("the deletion continues");
  process.exitCode = stop.exitCode();
}
