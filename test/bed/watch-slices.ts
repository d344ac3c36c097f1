/** What a watch saw of a service's endpoints: it also catches a state too short for polling. */
import { connect } from "../../src/kube/client/connect.ts";
import { ENDPOINT_SLICES } from "../../src/kube/kinds.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import { quietLog } from "../cluster/quiet-log.ts";

export interface WatchedSlices extends Disposable {
  /** On the performance clock: when our slices of the service lost their last ready endpoint. */
  readonly withdrawals: readonly number[];
}

/** Resolves once the slices of the service are known. */
export async function watchSlices(
  kubeconfigPath: string,
  namespace: string,
  service: string,
): Promise<WatchedSlices> {
  const connection = await connect({ kubeconfigPath });
  const ending = new AbortController();
  const withdrawals: number[] = [];
  const ready = new Set<string>();
  await new Promise<void>((resolve) => {
    startReflector({
      connection,
      clock: systemClock,
      log: quietLog,
      signal: ending.signal,
      kind: ENDPOINT_SLICES,
      namespace,
      labelSelector: `kubernetes.io/service-name=${service}`,
      onChange: (key, slice) => {
        const isReady = slice?.endpoints?.some(({ conditions }) => conditions?.ready === true) === true;
        if (isReady) ready.add(key);
        else if (ready.delete(key) && ready.size === 0) withdrawals.push(performance.now());
      },
      onListed: () => resolve(),
    });
  });
  return {
    withdrawals,
    [Symbol.dispose]: () => {
      ending.abort();
      connection.close();
    },
  };
}
