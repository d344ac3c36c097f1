/** Reports requests for services with spec.idle to the controller, through one Lease per service. */
import {
  DEMAND_RENEW_MS,
  demandLeaseName,
  demandRenewal,
  type ReportedDemand,
  renderDemandLease,
} from "../src/api/demand-lease.ts";
import { LEASES } from "../src/kube/kinds.ts";
import type { Lease } from "../src/kube/objects.ts";
import type { ApiFailure, KubeClient } from "../src/kube/types.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import type { ServedModel } from "./models/served-model.ts";

export interface DemandPorts {
  readonly client: Pick<KubeClient, "jsonPatch" | "create">;
  /** Name of this gateway. */
  readonly gateway: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface DemandReporter {
  /** Must be called when a request arrives, and periodically while one is in flight. */
  readonly note: (model: ServedModel) => void;
}

/** While a service is ready, the controller needs its demand only to the minute. */
const RENEW_WHILE_READY_MS = 10_000;

interface Reported {
  /** Monotonic time of the last write. */
  at: number;
  isWriting: boolean;
  cancelRetry: (() => void) | undefined;
  /** Message of the last failure, to log it once. */
  failure: string | undefined;
}

export function createDemandReporter({ client, gateway, clock, log, signal }: DemandPorts): DemandReporter {
  const reported = new Map<string, Reported>();

  const report = (model: ServedModel, entry: Reported): void => {
    entry.at = clock.monotonicMs();
    entry.isWriting = true;
    void renewDemand(client, model, { gateway, requestAtMs: clock.nowMs() }).then((failure) => {
      entry.isWriting = false;
      const hasChanged = entry.failure !== failure?.message;
      entry.failure = failure?.message;
      if (failure === undefined || signal.aborted) return;
      if (hasChanged)
        log.warn({ service: model.key, failure: failure.message }, "cannot report demand; retrying");
      entry.cancelRetry = clock.after(DEMAND_RENEW_MS, () => {
        entry.cancelRetry = undefined;
        if (!signal.aborted) report(model, entry);
      });
    });
  };

  return {
    note: (model) => {
      if (!model.isIdleCapable) return;
      const entry = reported.get(model.key) ?? {
        at: Number.NEGATIVE_INFINITY,
        isWriting: false,
        cancelRetry: undefined,
        failure: undefined,
      };
      reported.set(model.key, entry);
      const everyMs = model.state === "ready" ? RENEW_WHILE_READY_MS : DEMAND_RENEW_MS;
      if (entry.isWriting || entry.cancelRetry !== undefined || clock.monotonicMs() - entry.at < everyMs)
        return;
      report(model, entry);
    },
  };
}

/** Renews the demand Lease of a service, or creates it on the first request. */
export async function renewDemand(
  client: DemandPorts["client"],
  { namespace, name, uid }: Pick<ServedModel, "namespace" | "name" | "uid">,
  demand: ReportedDemand,
): Promise<ApiFailure | undefined> {
  const ref = { namespace, name: demandLeaseName(name) };
  const renew = async (): Promise<ApiFailure | undefined> => {
    const renewed = await client.jsonPatch(LEASES, ref, demandRenewal(demand));
    return renewed.ok ? undefined : renewed.error;
  };
  const failure = await renew();
  if (failure?.kind !== "notFound") return failure;
  const lease = renderDemandLease({ metadata: { namespace, name, uid } }, demand) as Lease;
  const created = await client.create(LEASES, lease);
  if (created.ok) return undefined;
  // Another gateway created it concurrently.
  return created.error.kind === "alreadyExists" ? renew() : created.error;
}
