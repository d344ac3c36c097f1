/** Removes objects of deleted services. */
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import type { Recheck } from "../../src/kube/queue.ts";
import { applyServiceSteps } from "./apply/apply.ts";
import { ApiCallFailed } from "./apply/failure.ts";
import { PartialRejection } from "./apply/rejection.ts";
import type { ObservedService } from "./owned/observe.ts";
import { planTeardown } from "./owned/teardown.ts";
import type { ServicePorts } from "./ports.ts";

/** Delay before the next check while the watches are behind. */
const BEHIND_MS = 1_000;

/** Removes objects of earlier services of this name, after a live read has confirmed that their owner no longer exists. */
export async function removeOrphans(
  ports: ServicePorts,
  key: string,
  { orphans }: ObservedService,
): Promise<Recheck | undefined> {
  if (orphans.size === 0) return undefined;
  const [namespace = "", name = ""] = key.split("/");
  const live = await ports.client.get(INFERENCE_SERVICES, { namespace, name });
  if (!live.ok && live.error.kind !== "notFound")
    throw new ApiCallFailed(`get InferenceService ${key}`, live.error);
  for (const [uid, owned] of orphans) {
    if (live.ok && live.value.metadata.uid === uid) return { recheckAfterMs: BEHIND_MS };
    const { rejections } = await applyServiceSteps(
      ports,
      planTeardown(owned, "its InferenceService no longer exists"),
    );
    if (rejections.length > 0) throw new PartialRejection(rejections);
  }
  return undefined;
}
