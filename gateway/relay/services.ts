/** Services that the relay serves: the port of each one, and its sealed replicas. Pure. */
import {
  LABEL_RELAYED_SERVICE,
  LABEL_SLICE_MANAGED_BY,
  PORT_NAME,
  SLICE_MANAGED_BY_CONTROLLER,
} from "../../src/api/group.ts";
import { keyOf } from "../../src/api/names.ts";
import { compareAge, FIRST_RELAY_PORT, isRelayPort, LAST_RELAY_PORT } from "../../src/gateway/relay-ports.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import type { EnvoyCluster } from "../envoy/types.ts";
import { fingerprintsOf } from "../models/sealed.ts";
import { readyEndpoints, serviceOfSlice } from "../models/served-model.ts";

/** The Service itself has no limit; this one protects the memory of the relay. */
const MAX_CONNECTIONS = 20_000;

/** One port of the relay. */
export interface RelayPort {
  readonly port: number;
  /** `namespace/name`, which is also the name of the cluster. */
  readonly service: string;
}

export interface AssignedPorts {
  readonly ports: readonly RelayPort[];
  /** Slices that are not served, and why. */
  readonly problems: ReadonlyMap<string, string>;
}

export class RelayedServices {
  /** Slices that lead a Service to the relay. */
  readonly #doors = new Map<string, EndpointSlice>();
  /** Slices of replicas by name, of each service. */
  readonly #replicas = new Map<string, Map<string, EndpointSlice>>();
  /** An unchanged cluster keeps its object, because only changed ones are rendered. */
  readonly #clusters = new Map<string, EnvoyCluster>();

  setDoor(key: string, slice: EndpointSlice | undefined): void {
    if (slice === undefined) this.#doors.delete(key);
    else this.#doors.set(key, slice);
  }

  setReplica(key: string, slice: EndpointSlice | undefined, before: EndpointSlice | undefined): void {
    for (const [service, isGone] of [
      [before && serviceOfSlice(before), true],
      [slice && serviceOfSlice(slice), false],
    ] as const) {
      if (service === undefined) continue;
      const slices = this.#replicas.get(service) ?? new Map<string, EndpointSlice>();
      if (isGone || slice === undefined) slices.delete(key);
      else slices.set(key, slice);
      if (slices.size === 0) this.#replicas.delete(service);
      else this.#replicas.set(service, slices);
      this.#clusters.delete(service);
    }
  }

  /** If two services ask for one port, the one whose slice is older has it. */
  ports(): AssignedPorts {
    const ports = new Map<number, string>();
    const problems = new Map<string, string>();
    for (const [key, slice] of [...this.#doors].toSorted(([, a], [, b]) => compareAge(a, b))) {
      const { metadata } = slice;
      if (metadata.labels?.[LABEL_SLICE_MANAGED_BY] !== SLICE_MANAGED_BY_CONTROLLER) continue;
      const name = metadata.labels?.[LABEL_RELAYED_SERVICE] ?? "";
      const service = keyOf({ namespace: metadata.namespace, name });
      const port = slice.ports?.find((one) => one.name === PORT_NAME)?.port;
      if (port === undefined || !isRelayPort(port)) {
        problems.set(
          key,
          `its port ${port ?? "is missing; it"} must be from ${FIRST_RELAY_PORT} to ${LAST_RELAY_PORT}`,
        );
        continue;
      }
      const owner = ports.get(port) ?? service;
      ports.set(port, owner);
      if (owner !== service) problems.set(key, `port ${port} belongs to ${owner}, whose slice is older`);
    }
    return { ports: Array.from(ports, ([port, service]) => ({ port, service })), problems };
  }

  /** One for each service with a port, also without any replica. */
  clusters(ports: readonly RelayPort[]): readonly EnvoyCluster[] {
    const services = new Set(ports.map(({ service }) => service));
    for (const name of this.#clusters.keys()) if (!services.has(name)) this.#clusters.delete(name);
    return [...services].map((service) => {
      const cluster = this.#clusters.get(service) ?? this.#clusterOf(service);
      this.#clusters.set(service, cluster);
      return cluster;
    });
  }

  /** Only sealed replicas: the relay sends nothing in plain text. */
  #clusterOf(name: string): EnvoyCluster {
    const slices = [...(this.#replicas.get(name)?.values() ?? [])];
    const ready = slices.flatMap(readyEndpoints);
    // A withdrawn replica serves until every node knows of it: kube-proxy may still send requests, and no other replica has them.
    const usable = ready.length > 0 ? ready : slices.map(withoutConditions).flatMap(readyEndpoints);
    const endpoints = usable.flatMap(({ ip, port, fingerprints }) =>
      fingerprints === undefined ? [] : [{ address: ip, port, isHealthy: true, fingerprints }],
    );
    const fingerprints = fingerprintsOf(slices);
    return { name, endpoints, fingerprints, keepsConnections: true, maxConnections: MAX_CONNECTIONS };
  }
}

function withoutConditions(slice: EndpointSlice): EndpointSlice {
  const endpoints = slice.endpoints?.map(({ conditions: _, ...endpoint }) => endpoint);
  return endpoints === undefined ? slice : { ...slice, endpoints };
}
