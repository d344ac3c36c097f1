/** Reads the storage behind a claim, and why a claim is not bound or a Job has no pod, from the storage class and Events. */
import { PERSISTENT_VOLUMES, STORAGE_CLASSES } from "../../../src/kube/kinds.ts";
import type { KubeEvent } from "../../../src/kube/objects.ts";
import type { Kind, KubeClient, KubeObject } from "../../../src/kube/types.ts";
import type { Job, PersistentVolumeClaim } from "../../../src/kube/workload-objects.ts";
import { ApiCallFailed } from "../../frame/apply/failure.ts";
import { newestEventFirst, readEvents } from "../../frame/watches/events.ts";
import type { ObservedStorage } from "./filler.ts";
import { type CacheProblem, cacheProblem } from "./job.ts";

/** Throws if only a retry can help: the decision that follows from the storage stays. */
export async function readStorage(
  client: KubeClient,
  { spec, status }: PersistentVolumeClaim,
): Promise<ObservedStorage> {
  const { volumeName = "", storageClassName = "" } = spec;
  if (status?.phase === "Bound")
    return { at: "bound", volume: await readIfAllowed(client, PERSISTENT_VOLUMES, volumeName) };
  return { at: "unbound", storageClass: await readIfAllowed(client, STORAGE_CLASSES, storageClassName) };
}

/** Undefined if it does not exist, or the controller has no right to it. */
async function readIfAllowed<T extends KubeObject>(
  client: KubeClient,
  kind: Kind<T>,
  name: string,
): Promise<T | undefined> {
  if (name === "") return undefined;
  const found = await client.get(kind, { name });
  if (found.ok) return found.value;
  if (found.error.kind === "notFound" || found.error.kind === "forbidden") return undefined;
  throw new ApiCallFailed(`read ${kind.kind} ${name}`, found.error);
}

/** Undefined while the provisioner works or waits for a pod. Never rejects. */
export async function readClaimProblem(
  client: KubeClient,
  claim: PersistentVolumeClaim,
): Promise<CacheProblem | undefined> {
  const { name } = claim.metadata;
  const className = claim.spec.storageClassName ?? "";
  if (className !== "") {
    const found = await client.get(STORAGE_CLASSES, { name: className });
    if (!found.ok && found.error.kind === "notFound")
      return cacheProblem("UnbindableModelCache", `claim ${name}: storage class ${className} does not exist`);
  }
  const note = newestFailure(await readEvents(client, claim), ["FailedBinding", "ProvisioningFailed"]);
  return note === undefined ? undefined : cacheProblem("UnbindableModelCache", `claim ${name}: ${note}`);
}

/** Undefined if the API server did not reject the Job's pod. Never rejects. */
export async function readJobProblem(client: KubeClient, job: Job): Promise<CacheProblem | undefined> {
  const note = newestFailure(await readEvents(client, job), ["FailedCreate"]);
  if (note === undefined) return undefined;
  const code = note.includes("exceeded quota") ? "QuotaExceeded" : "ApiObjectRefused";
  return cacheProblem(code, `Job ${job.metadata.name} cannot create its pod: ${note}`);
}

/** Events that a provisioner repeats while it tries. They neither confirm nor refute an earlier failure. */
const ATTEMPTS: readonly string[] = ["Provisioning", "ExternalProvisioning"];

/** The note of the newest Event of one object, if that is a failure: an older failure may have been corrected since. */
export function newestFailure(events: readonly KubeEvent[], failures: readonly string[]): string | undefined {
  const newest = newestEventFirst(events).find(({ reason = "" }) => !ATTEMPTS.includes(reason));
  return failures.includes(newest?.reason ?? "") ? newest?.note : undefined;
}
