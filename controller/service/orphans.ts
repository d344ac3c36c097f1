/** Leftovers of deleted services of the same name. */
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import type { Recheck } from "../../src/kube/queue.ts";
import { applyServiceSteps } from "./apply/apply.ts";
import { ApiCallFailed } from "./apply/failure.ts";
import { PartialRejection } from "./apply/rejection.ts";
import type { ObservedService } from "./owned/observe.ts";
import { planTeardown } from "./owned/teardown.ts";
import type { ServicePorts } from "./ports.ts";

/** The watches may be behind: recheck. */
const BEHIND_MS = 1_000;

/** Leftovers of another uid of this name; only after a live read has confirmed that the owner is gone. */
export async function removeOrphans(
  ports: ServicePorts,
  key: string,
  { strays }: ObservedService,
): Promise<Recheck | undefined> {
  if (strays.size === 0) return undefined;
  const [namespace = "", name = ""] = key.split("/");
  const live = await ports.client.get(INFERENCE_SERVICES, { namespace, name });
  if (!live.ok && live.error.kind !== "notFound")
    throw new ApiCallFailed(`get InferenceService ${key}`, live.error);
  for (const [uid, belongings] of strays) {
    if (live.ok && live.value.metadata.uid === uid) return { recheckAfterMs: BEHIND_MS };
    const { rejections } = await applyServiceSteps(
      ports,
      planTeardown(belongings, "its InferenceService is gone"),
    );
    if (rejections.length > 0) throw new PartialRejection(rejections);
  }
  return undefined;
}
