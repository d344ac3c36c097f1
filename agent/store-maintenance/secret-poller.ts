/** Detects changes of Secrets that failed downloads wait for, with one read per Secret for all downloads. */
import type { KubeClient } from "../../src/kube/types.ts";
import { waitMs } from "../../src/kube/wait.ts";
import { backoffMs } from "../../src/util/backoff.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { versionOfSecret } from "../replicas/secrets/secrets.ts";

/** Poll intervals are multiplied by the number of Secrets, so that a host reads at most one Secret every 6 s. */
const FIRST_MS = 3_000;
const MAX_MS = 8_000;

interface Ref {
  readonly namespace: string;
  readonly name: string;
  /** Undefined if the Secret could not be read. */
  readonly version: string | undefined;
}

/** Calls `onChange` once when the Secret has another version. The result cancels the wait. */
export type AwaitSecret = (secret: Ref, onChange: () => void) => () => void;

interface Waiting {
  readonly version: string | undefined;
  readonly onChange: () => void;
}

export function createSecretPoller(options: {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}): AwaitSecret {
  const { client, clock, log, signal } = options;
  const secrets = new Map<string, Set<Waiting>>();
  const poll = async ({ namespace, name }: Ref, waiting: Set<Waiting>): Promise<void> => {
    for (let polls = 1; waiting.size > 0 && !signal.aborted; polls += 1) {
      const limits = { firstMs: FIRST_MS * secrets.size, capMs: MAX_MS * secrets.size };
      await waitMs(clock, backoffMs(polls, { ...limits, jitter: [0.75, 1] }), signal);
      if (waiting.size === 0 || signal.aborted) break;
      const version = await versionOfSecret(client, namespace, name);
      for (const one of waiting) {
        if (version === undefined || version === one.version) continue;
        waiting.delete(one);
        one.onChange();
      }
    }
    secrets.delete(`${namespace}/${name}`);
  };
  return (secret, onChange) => {
    const key = `${secret.namespace}/${secret.name}`;
    const known = secrets.get(key);
    const waiting = known ?? new Set();
    const one = { version: secret.version, onChange };
    waiting.add(one);
    if (known === undefined) {
      secrets.set(key, waiting);
      poll(secret, waiting).catch((err: unknown) => {
        secrets.delete(key);
        log.error({ err, secret: key }, "polling a Secret stopped unexpectedly");
      });
    }
    return () => void waiting.delete(one);
  };
}
