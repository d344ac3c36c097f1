/** Follows the Secrets with keys in one namespace. */
import { LABEL_GATEWAY_KEY } from "../../src/api/group.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { SECRETS } from "../../src/kube/kinds.ts";
import type { Secret } from "../../src/kube/objects.ts";
import type { Reflector } from "../../src/kube/types.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { createKeyIndex, type KeyIndex } from "./key-index.ts";

export interface WatchedKeys {
  readonly keys: KeyIndex;
  readonly reflector: Reflector<Secret>;
}

/** Keys that were read stay in force while the API server is unreachable. */
export function watchKeys(ports: {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly namespace: string;
  /** Called after each change of a key. */
  readonly onChange: () => void;
}): WatchedKeys {
  const { log, namespace, onChange } = ports;
  const keys = createKeyIndex();
  const reflector = startReflector<Secret>({
    ...ports,
    kind: SECRETS,
    labelSelector: `${LABEL_GATEWAY_KEY}=true`,
    onChange: (_key, secret, before) => {
      if (secret === undefined) {
        if (before !== undefined) keys.drop(before.metadata.name);
        onChange();
        return;
      }
      const read = keys.put(secret);
      if (read.at === "invalid")
        log.warn({ namespace, secret: read.id, problem: read.problem }, "the Secret is no valid key");
      onChange();
    },
  });
  return { keys, reflector };
}
