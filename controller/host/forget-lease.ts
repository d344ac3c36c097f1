/** Removes the Lease of a deleted host, which its agent created and may no longer be able to remove. */
import { NAMESPACE_HOSTS } from "../../src/api/group.ts";
import { LEASES } from "../../src/kube/kinds.ts";
import type { Recheck } from "../../src/kube/queue.ts";
import { ApiCallFailed } from "../service/apply/failure.ts";
import type { ControllerPorts } from "../watches/ports.ts";
import { SILENCE_MS } from "./liveness.ts";
import type { LeaseSigns } from "./signs.ts";

/** Waits until the Lease has expired, because an agent that still waits for its Host renews it. */
export async function forgetLease(
  { watches, client, clock, log, signs }: ControllerPorts & { readonly signs: LeaseSigns },
  name: string,
): Promise<Recheck | undefined> {
  const lease = watches.leases.get(`${NAMESPACE_HOSTS}/${name}`);
  if (lease === undefined) return undefined;
  const seen = { lastChangeMs: signs.lastChangeMs(name), countedFromMs: signs.countedFromMs() };
  const leftMs = leaseExpiresInMs(seen, clock.monotonicMs());
  if (leftMs > 0) return { recheckAfterMs: leftMs + 1 };
  const { uid, resourceVersion } = lease.metadata;
  const removed = await client.remove(LEASES, { name, namespace: NAMESPACE_HOSTS }, { uid, resourceVersion });
  if (removed.ok) log.info({ host: name }, "the Lease of a deleted host is removed");
  else if (removed.error.kind === "conflict") return { recheckAfterMs: SILENCE_MS };
  else if (removed.error.kind !== "notFound") {
    throw new ApiCallFailed(`delete the Lease of ${name}`, removed.error);
  }
  return undefined;
}

/** 0 or less once this controller has seen no renewal for the duration of a Lease. */
export function leaseExpiresInMs(
  {
    lastChangeMs = 0,
    countedFromMs,
  }: { readonly lastChangeMs?: number | undefined; readonly countedFromMs: number },
  now: number,
): number {
  return Math.max(lastChangeMs, countedFromMs) + SILENCE_MS - now;
}
