/** Loads the kubeconfig, waiting until a usable one exists; engines keep running meanwhile. */
import { describeError, MetalbridgeError } from "../../src/api/errors.ts";
import { type ConnectOptions, connect, type KubeConnection } from "../../src/kube/client/connect.ts";
import { waitMs } from "../../src/kube/wait.ts";
import { backoffMs } from "../../src/util/backoff.ts";
import type { Clock, Log } from "../../src/util/ports.ts";

export interface ConnectPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Called after each failure. */
  readonly onFailure: (error: MetalbridgeError) => void;
}

const RETRY = { firstMs: 500, capMs: 15_000 };

/** Undefined if the signal was aborted first. */
export async function connectWithRetry(
  /** Called for each attempt: a host may join at any time. */
  options: () => ConnectOptions,
  { clock, log, signal, onFailure }: ConnectPorts,
): Promise<KubeConnection | undefined> {
  let logged: string | undefined;
  for (let failures = 1; !signal.aborted; failures += 1) {
    try {
      return await connect(options());
    } catch (error) {
      if (!(error instanceof MetalbridgeError)) throw error;
      const message = describeError(error);
      if (message !== logged) log.warn({ code: error.code }, message);
      logged = message;
      onFailure(error);
      await waitMs(clock, backoffMs(failures, RETRY), signal);
    }
  }
  return undefined;
}
