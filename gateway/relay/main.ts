/** The relay: leads requests of the cluster's Services to sealed replicas on hosts, through Envoy. */
import { once } from "node:events";
import { LABEL_RELAYED_SERVICE, LABEL_SERVICE, SECRET_TRANSPORT } from "../../src/api/group.ts";
import { healthRoutes, listen } from "../../src/http/listener.ts";
import { processFacts } from "../../src/http/metrics/process.ts";
import { METRICS_TYPE, renderFamilies } from "../../src/http/metrics/render.ts";
import { connect, type KubeConnection } from "../../src/kube/client/connect.ts";
import { ENDPOINT_SLICES } from "../../src/kube/kinds.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { startReflector, withoutManagers } from "../../src/kube/watch/reflector.ts";
import { createIdentityReader } from "../../src/supervise/identity/identity.ts";
import { createSupervisor } from "../../src/supervise/supervisor.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { EnvoyKeyPair } from "../envoy/types.ts";
import { warnOfMalformed, watchTransport } from "../models/sealed.ts";
import type { RelayConfig } from "./config.ts";
import { readRequests, relayFamilies } from "./metrics.ts";
import { openRelayEnvoy, type RelayEnvoy } from "./relay-envoy.ts";
import { RelayedServices } from "./services.ts";

export interface RelayOptions {
  readonly config: RelayConfig;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Ends the wait for requests in flight. */
  readonly hurry: AbortSignal;
  readonly clock?: Clock;
}

interface RelayPorts {
  readonly config: RelayConfig;
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  /** The lifetime of all parts. */
  readonly signal: AbortSignal;
}

const USER_AGENT = "metalbridge-relay";
const MAX_REQUESTS = 8;

/** Resolves after `signal` was aborted and requests in flight have finished. Rejects if it cannot start: kubeconfig, Envoy, ports. */
export async function runRelay(options: RelayOptions): Promise<void> {
  const { config, log, signal, hurry, clock = systemClock } = options;
  const connection = await connect({
    kubeconfigPath: config.kubeconfig,
    context: config.context,
    userAgent: USER_AGENT,
    maxRequests: MAX_REQUESTS,
  });
  const ending = new AbortController();
  const stopped = aborted(signal);
  try {
    const ports = { config, connection, clock, log, signal: ending.signal };
    const relay = createRelay(ports);
    const health = await listenForHealth(relay, ports);
    await Promise.race([relay.opened, stopped]);
    if (!signal.aborted) log.info({ server: connection.server, health }, "relay started");
    await stopped;
    const envoy = relay.envoy();
    const quick = aborted(hurry).then(() => envoy?.stop({ drainMs: 0, keptMs: 0 }));
    await Promise.race([envoy?.stop(), quick]);
  } finally {
    ending.abort();
    connection.close();
  }
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, "abort");
}

/** The watches start at once; Envoy when the relay knows all services and its certificate. */
function createRelay(ports: RelayPorts) {
  const { config, clock, log } = ports;
  const services = new RelayedServices();
  let envoy: RelayEnvoy | undefined;
  let waitsFor = "the first list of the cluster";
  let keyPair: EnvoyKeyPair | undefined;
  const identified = Promise.withResolvers<void>();
  const slices = { ...ports, kind: ENDPOINT_SLICES, keep: withoutManagers };
  const doors = startReflector<EndpointSlice>({
    ...slices,
    labelSelector: LABEL_RELAYED_SERVICE,
    onChange: (key, slice) => {
      services.setDoor(key, slice);
      envoy?.update();
    },
  });
  const replicas = startReflector<EndpointSlice>({
    ...slices,
    labelSelector: LABEL_SERVICE,
    onChange: (key, slice, before) => {
      warnOfMalformed(slice, log);
      services.setReplica(key, slice, before);
      envoy?.update();
    },
  });
  watchTransport({
    ...ports,
    namespace: config.namespace,
    onKeyPair: (next) => {
      keyPair = next;
      identified.resolve();
      void envoy?.present(next);
    },
  });
  const open = async (): Promise<void> => {
    await Promise.all([doors.whenSynced(), replicas.whenSynced()]);
    waitsFor = `the Secret ${SECRET_TRANSPORT} in ${config.namespace}`;
    await identified.promise;
    waitsFor = "Envoy";
    const given = keyPair;
    if (given === undefined) return;
    const identity = createIdentityReader(process.platform);
    const supervisor = createSupervisor({ clock, log, identity });
    const { dir, envoy: program, address } = config;
    const options = { ...ports, dir, envoy: program, address, services, supervisor };
    envoy = await openRelayEnvoy({ ...options, keyPair: given });
    if (keyPair !== undefined && keyPair !== given) await envoy.present(keyPair);
  };
  const opened = open();
  // It rejects at the end, and is not awaited if a port is taken.
  opened.catch(() => {});
  return {
    services,
    envoy: () => envoy,
    opened,
    notReady: () => (envoy?.isReady() === true ? [] : [`waiting for ${waitsFor}`]),
  };
}

function listenForHealth(
  { services, envoy, notReady }: ReturnType<typeof createRelay>,
  { config, clock, signal }: RelayPorts,
): Promise<number> {
  const metrics = async () => {
    const requests = await readRequests(envoy()?.admin);
    const { ports, problems } = services.ports();
    const clusters = services.clusters(ports);
    const facts = {
      requests,
      clusters,
      problems,
      isReady: notReady().length === 0,
      process: processFacts(clock),
    };
    return { status: 200, body: Buffer.from(renderFamilies(relayFamilies, facts)), type: METRICS_TYPE };
  };
  const routes = healthRoutes({ notReady, metrics });
  return listen({ address: config.healthAddress, port: config.healthPort, routes, signal });
}
