/**
 * Foreign Services that have a name one of ours needs. Each is watched by name while it exists, so there is no
 * polling; caching all Services of a cluster would be too much for a rare mistake.
 */
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { SERVICES } from "../../src/kube/kinds.ts";
import type { Service } from "../../src/kube/objects.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import type { Clock, Log } from "../../src/util/ports.ts";

export interface ForeignServices {
  /** `namespace/name` of the Service that has the name; idempotent. */
  readonly watch: (key: string) => void;
  readonly forget: (key: string) => void;
}

export interface ForeignServicesOptions {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** The name is free, or has been for a moment. */
  readonly onFree: (key: string) => void;
}

/** Every watch ends with `signal`. */
export function createForeignServices({ onFree, signal, ...ports }: ForeignServicesOptions): ForeignServices {
  const watches = new Map<string, AbortController>();
  return {
    watch: (key) => {
      if (watches.has(key)) return;
      const watch = new AbortController();
      watches.set(key, watch);
      const [namespace = "", name = ""] = key.split("/");
      const { list } = startReflector<Service>({
        ...ports,
        signal: AbortSignal.any([signal, watch.signal]),
        kind: SERVICES,
        namespace,
        fieldSelector: `metadata.name=${name}`,
        onChange: (_, service) => {
          if (service === undefined) onFree(key);
        },
        // It may have been deleted before the first list.
        onListed: () => {
          if (list().length === 0) onFree(key);
        },
      });
    },
    forget: (key) => {
      watches.get(key)?.abort();
      watches.delete(key);
    },
  };
}
