/**
 * Watches Services of other owners that have a name which one of ours needs, each by its name, until the name is free. Caching all
 * Services of a cluster would be too expensive for a rare mistake.
 */
import { SERVICES } from "../../src/kube/kinds.ts";
import type { Service } from "../../src/kube/objects.ts";
import type { WatchOptions } from "../frame/watches/contract.ts";

export interface ForeignServices {
  /** Watches the Service `namespace/name`. Idempotent. */
  readonly watch: (key: string) => void;
  readonly forget: (key: string) => void;
}

export interface ForeignServicesOptions extends WatchOptions {
  /** Called when the name is free, or was free for a moment. */
  readonly onFree: (key: string) => void;
}

/** All watches stop with `signal`. */
export function createForeignServices({ onFree, signal, ...ports }: ForeignServicesOptions): ForeignServices {
  const watches = new Map<string, AbortController>();
  return {
    watch: (key) => {
      if (watches.has(key)) return;
      const watch = new AbortController();
      watches.set(key, watch);
      const [namespace = "", name = ""] = key.split("/");
      const { list } = ports.startReflector<Service>({
        ...ports,
        signal: AbortSignal.any([signal, watch.signal]),
        kind: SERVICES,
        namespace,
        fieldSelector: `metadata.name=${name}`,
        onChange: (_, service) => {
          if (service === undefined) onFree(key);
        },
        // The Service may have been deleted before the first list.
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
