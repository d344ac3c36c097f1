/** The gateway's watches: services, the slices of their replicas, Secrets with keys, and the other gateways. */
import { LABEL_GATEWAY_KEY, LABEL_SERVICE, LABEL_SERVICE_NAME } from "../src/api/group.ts";
import { INFORMERS } from "../src/cluster/informers.ts";
import type { KubeConnection } from "../src/kube/client/connect.ts";
import { ENDPOINT_SLICES, SECRETS } from "../src/kube/kinds.ts";
import type { EndpointSlice, Secret } from "../src/kube/objects.ts";
import type { Reflector } from "../src/kube/types.ts";
import { startReflector, withoutManagers } from "../src/kube/watch/reflector.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import type { KeyIndex } from "./keys/key-index.ts";
import type { Models } from "./models/models.ts";
import { warnOfMalformed } from "./models/sealed.ts";

export interface GatewayWatchPorts {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** `onChange` is called with the `namespace/name` of each changed or removed model. */
export function watchModels(
  ports: GatewayWatchPorts & { readonly models: Models; readonly onChange: (key: string) => void },
) {
  const { models, onChange } = ports;
  return [
    startReflector({
      ...ports,
      ...INFORMERS.services,
      keep: withoutManagers,
      onChange: (key, service) => {
        if (models.setService(key, service)) onChange(key);
      },
    }),
    startReflector<EndpointSlice>({
      ...ports,
      kind: ENDPOINT_SLICES,
      labelSelector: LABEL_SERVICE,
      keep: withoutManagers,
      onChange: (key, slice, before) => {
        warnOfMalformed(slice, ports.log);
        const changed = models.setSlice(key, slice, before);
        if (changed !== undefined) onChange(changed);
      },
    }),
  ] as const;
}

/** Keys stay valid while the API server is unreachable. */
export function watchKeys(
  ports: GatewayWatchPorts & {
    readonly namespace: string;
    readonly keys: KeyIndex;
    readonly onChange: () => void;
  },
): Reflector<Secret> {
  const { keys, log, namespace, onChange } = ports;
  return startReflector<Secret>({
    ...ports,
    kind: SECRETS,
    labelSelector: `${LABEL_GATEWAY_KEY}=true`,
    keep: withoutManagers,
    onChange: (_key, secret, before) => {
      if (secret !== undefined) {
        const read = keys.put(secret);
        if (read.at === "invalid")
          log.warn({ namespace, secret: read.id, problem: read.problem }, "the Secret is not a valid key");
      } else if (before !== undefined) keys.drop(before.metadata.name);
      onChange();
    },
  });
}

/** Counts the ready endpoints of the gateways' Service; at least 1. */
export function watchGateways(
  ports: GatewayWatchPorts & {
    readonly namespace: string;
    readonly service: string;
    readonly onChange: (count: number) => void;
  },
) {
  const { service, onChange } = ports;
  const slices = startReflector<EndpointSlice>({
    ...ports,
    kind: ENDPOINT_SLICES,
    labelSelector: `${LABEL_SERVICE_NAME}=${service}`,
    onChange: () => onChange(count()),
  });
  const count = (): number => {
    const ready = slices
      .list()
      .flatMap(({ endpoints }) => endpoints ?? [])
      .filter(({ conditions }) => conditions?.ready !== false);
    return Math.max(1, ready.length);
  };
  return { slices, count };
}
