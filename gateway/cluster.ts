/** The watches of the gateway: services, the slices of their replicas, and the other gateways. */
import { LABEL_SERVICE, LABEL_SERVICE_NAME } from "../src/api/group.ts";
import { INFERENCE_SERVICES } from "../src/api/kinds.ts";
import type { KubeConnection } from "../src/kube/client/connect.ts";
import { ENDPOINT_SLICES } from "../src/kube/kinds.ts";
import type { EndpointSlice } from "../src/kube/objects.ts";
import type { Reflector } from "../src/kube/types.ts";
import { startReflector } from "../src/kube/watch/reflector.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import type { Models } from "./models/models.ts";

export interface WatchPorts {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export type Watches = Readonly<Record<string, Pick<Reflector<never>, "isSynced" | "whenSynced">>>;

export function watchModels(ports: WatchPorts, models: Models) {
  return {
    services: startReflector({
      ...ports,
      kind: INFERENCE_SERVICES,
      onChange: (key, service) => models.setService(key, service),
    }),
    slices: startReflector<EndpointSlice>({
      ...ports,
      kind: ENDPOINT_SLICES,
      labelSelector: LABEL_SERVICE,
      onChange: (key, slice, before) => models.setSlice(key, slice, before),
    }),
  };
}

/** Watches the Service of the gateways. `count` is at least 1. */
export function watchGateways(
  ports: WatchPorts & { readonly namespace: string; readonly service: string; readonly onChange: () => void },
) {
  const { service, onChange } = ports;
  const slices = startReflector<EndpointSlice>({
    ...ports,
    kind: ENDPOINT_SLICES,
    labelSelector: `${LABEL_SERVICE_NAME}=${service}`,
    onChange,
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
