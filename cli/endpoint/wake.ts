/** Loads the replicas of an idle service, as a request through the gateway does, and waits for one. */
import { renewDemand } from "../../gateway/demand.ts";
import { servedModel } from "../../gateway/models/served-model.ts";
import { MetalbridgeError, remedyOf } from "../../src/api/errors.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { ENDPOINT_SLICES, LEASES } from "../../src/kube/kinds.ts";
import type { ListOptions } from "../../src/kube/types.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { explainAttempt } from "../cluster/failure.ts";
import { follow } from "../cluster/follow.ts";
import { formatSpan } from "../program/age.ts";
import { printNote } from "../program/output.ts";
import { printable } from "../program/table.ts";

/** As long as the gateway holds a request. */
const WAKE_MS = 300_000;

/** True if the service has no replicas because it had no requests, or if they start again. */
export function isAsleep({ status }: InferenceService): boolean {
  return status?.idle?.state === "Idle" || status?.idle?.state === "Waking";
}

/** Throws the explained failure. */
export async function wakeService({ client }: Cluster, service: InferenceService): Promise<void> {
  const { name, namespace = "default", uid } = service.metadata;
  const demand = { gateway: "metalbridge-cli", requestAtMs: Date.now() };
  const failure = await renewDemand(client, { name, namespace, uid }, demand);
  if (failure !== undefined) throw explainAttempt({ verb: "patch", kind: LEASES, namespace }, failure);
}

/** `selection` has its EndpointSlices. Throws NoReadyEndpoint if the replicas cannot start, NotReadyInTime, or the reason of `signal`. */
export async function wakeAndWait(
  cluster: Cluster,
  service: InferenceService,
  selection: ListOptions,
  signal: AbortSignal,
): Promise<void> {
  const { name, namespace } = service.metadata;
  const known = { service: `${name} -n ${namespace ?? cluster.namespace}` };
  await wakeService(cluster, service);
  printNote(`service ${name} is idle: its replicas start now`);
  let shown = "";
  const show = ({ status }: InferenceService): void => {
    const line = `${status?.phase ?? "Pending"}  ${printable(status?.message ?? "")}`.trimEnd();
    if (line !== shown && status?.idle?.state !== "Idle") printNote(line);
    shown = line;
  };
  const end = await follow<void>(cluster, { signal, timeoutMs: WAKE_MS }, ({ watch, finish, fail }) => {
    const look = (): void => {
      const [current] = services.list();
      const { state, reason } = servedModel(current ?? service, slices.list());
      const why = current === undefined ? "it was deleted" : reason;
      if (state === "ready") finish();
      else if (current === undefined || state === "off")
        fail(
          new MetalbridgeError(
            "NoReadyEndpoint",
            `service ${name}: ${why}`,
            remedyOf("NoReadyEndpoint", known),
          ),
        );
      else show(current);
    };
    const services = watch<InferenceService>(
      INFERENCE_SERVICES,
      { namespace, fieldSelector: `metadata.name=${name}` },
      look,
    );
    const slices = watch(ENDPOINT_SLICES, selection, look);
  });
  if (end.at === "stopped") throw signal.reason;
  if (end.at === "finished") return;
  throw new MetalbridgeError(
    "NotReadyInTime",
    `service ${name}: not loaded after ${formatSpan(WAKE_MS)}: ${shown}`,
    remedyOf("NotReadyInTime", known),
  );
}
