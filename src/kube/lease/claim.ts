/** Attempts to acquire or renew a Lease with an update, because two applies of the same manager would never conflict. */
import type { Clock } from "../../util/ports.ts";
import { LEASES } from "../kinds.ts";
import { type Lease, microTime } from "../objects.ts";
import type { ApiFailure, KubeClient } from "../types.ts";

const DEFAULT_DURATION_S = 15;

export interface ClaimOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly name: string;
  readonly namespace: string;
  readonly holder: string;
  readonly durationSeconds: number;
}

export type ClaimResult =
  | { readonly outcome: "held" }
  /** Another holder counts as alive for `forMs` unless it renews. */
  | { readonly outcome: "taken"; readonly holder: string; readonly forMs: number }
  | { readonly outcome: "failed"; readonly failure: ApiFailure };

export interface LeaseClaim {
  readonly attempt: () => Promise<ClaimResult>;
  /** Makes the Lease available to others immediately, if it is ours. */
  readonly release: () => Promise<void>;
}

/** Remembers the Lease as last written, so that a renewal takes one request. */
export function createLeaseClaim(options: ClaimOptions): LeaseClaim {
  const { client, clock, name, namespace, holder } = options;
  const observer = createLeaseObserver();
  let ours: Lease | undefined;

  let last: Promise<unknown> = Promise.resolve();

  const attempt = (): Promise<ClaimResult> => {
    const current = renewOrAcquire();
    last = current;
    return current;
  };

  const renewOrAcquire = async (): Promise<ClaimResult> => {
    if (ours !== undefined) {
      const renewed = await client.update(LEASES, renewedLease(ours, options));
      if (renewed.ok) return held(renewed.value);
      // The Lease was written or deleted by another client, so it must be read again.
      if (renewed.error.kind !== "conflict" && renewed.error.kind !== "notFound")
        return failed(renewed.error);
      ours = undefined;
    }
    const found = await client.get(LEASES, { name, namespace });
    if (found.ok) return takeOver(found.value);
    if (found.error.kind !== "notFound") return failed(found.error);
    const created = await client.create(LEASES, newLease(options));
    return created.ok ? held(created.value) : failed(created.error);
  };

  const takeOver = async (lease: Lease): Promise<ClaimResult> => {
    const other = lease.spec?.holderIdentity ?? "";
    const forMs = observer.aliveForMs(lease, clock.monotonicMs());
    if (other !== holder && forMs > 0) return { outcome: "taken", holder: other, forMs };
    const taken = await client.update(LEASES, renewedLease(lease, options));
    return taken.ok ? held(taken.value) : failed(taken.error);
  };

  const held = (lease: Lease): ClaimResult => {
    ours = lease;
    return { outcome: "held" };
  };

  const release = async (): Promise<void> => {
    // A renewal in flight would make this write conflict, or acquire the Lease again after it.
    await last;
    if (ours === undefined) return;
    const free = renewedLease(ours, { ...options, durationSeconds: 1 });
    ours = undefined;
    await client.update(LEASES, { ...free, spec: { ...free.spec, holderIdentity: "" } });
  };

  return { attempt, release };
}

/**
 * Determines how long another holder counts as alive from the changes that are observed on our monotonic clock, never from its
 * timestamps. After the first observation, a holder counts as alive for a full duration.
 */
function createLeaseObserver(): {
  /** Records the current state of the Lease. Returns 0 or less once its holder no longer counts as alive. */
  readonly aliveForMs: (lease: Lease, monotonicMs: number) => number;
} {
  let seen: { readonly mark: string; readonly atMs: number } | undefined;
  return {
    aliveForMs: (lease, monotonicMs) => {
      const {
        holderIdentity = "",
        renewTime = "",
        leaseDurationSeconds = DEFAULT_DURATION_S,
      } = lease.spec ?? {};
      if (holderIdentity === "") return 0;
      const mark = `${lease.metadata.uid} ${holderIdentity} ${renewTime}`;
      if (seen?.mark !== mark) seen = { mark, atMs: monotonicMs };
      return seen.atMs + leaseDurationSeconds * 1_000 - monotonicMs;
    },
  };
}

function failed(failure: ApiFailure): ClaimResult {
  return { outcome: "failed", failure };
}

function newLease({ name, namespace, holder, durationSeconds, clock }: ClaimOptions): Lease {
  const now = microTime(clock.nowMs());
  const spec = {
    holderIdentity: holder,
    leaseDurationSeconds: durationSeconds,
    acquireTime: now,
    renewTime: now,
    leaseTransitions: 0,
  };
  return { metadata: { name, namespace }, spec };
}

function renewedLease(lease: Lease, { holder, durationSeconds, clock }: ClaimOptions): Lease {
  const now = microTime(clock.nowMs());
  const { managedFields: _large, ...metadata } = lease.metadata;
  const isSameHolder = lease.spec?.holderIdentity === holder;
  const taken = isSameHolder
    ? {}
    : { acquireTime: now, leaseTransitions: (lease.spec?.leaseTransitions ?? 0) + 1 };
  const spec = {
    ...lease.spec,
    holderIdentity: holder,
    leaseDurationSeconds: durationSeconds,
    renewTime: now,
    ...taken,
  };
  return { ...lease, metadata, spec };
}
