/** The agent and its cluster: connects the session to the parts that were running before it. */
import { hostname } from "node:os";
import type { Host } from "../src/api/host.ts";
import { HOSTS } from "../src/api/kinds.ts";
import type { KubeConnection } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { followAddress } from "./host/follow-address.ts";
import { createPauseWatch, type Pause } from "./host/pause.ts";
import { createRouteReader, routedAddress } from "./host/routed-address.ts";
import type { Parts, Wiring } from "./parts.ts";
import type { Seen } from "./preflight.ts";
import { readInstanceId } from "./registration/instance-id.ts";
import { startSession } from "./session.ts";
import { addressOf, quotaOf } from "./state-views.ts";

/** Reads machine and Host once, for a dry run. */
export async function look(
  { config }: Wiring,
  { state, observer, address }: Parts,
  connection: KubeConnection,
): Promise<Seen> {
  // The agent may list Hosts, not get one.
  const [hosts, routed, seen] = await Promise.all([
    createClient(connection).list<Host>(HOSTS, { fieldSelector: `metadata.name=${config.hostName}` }),
    routedAddress(connection.server),
    observer.observe(),
  ]);
  const host = hosts.ok ? hosts.value.items[0] : undefined;
  if (host !== undefined) state.host = host;
  if (routed !== undefined) state.routed = routed;
  return { host, address: address(), runtimes: seen.runtimes };
}

/** Starts the session with the cluster, and watches for sleep and address changes from then on. */
export async function attach(wiring: Wiring, parts: Parts, connection: KubeConnection): Promise<void> {
  const { config, clock, log, signal, endSignal } = wiring;
  const { state, keptHost, store, observer, runner, lateClient, lateEndpoints } = parts;
  delete state.connectTrouble;
  const askRoute =
    config.addresses.length > 0 ? undefined : createRouteReader(() => connection.server, clock);
  const [routed, machineId] = await Promise.all([askRoute?.(), observer.machineId()]);
  const instance = await readInstanceId(config.stateDir, machineId);
  if (instance.wasCopied)
    log.warn(
      { machineId },
      "the state folder was copied from another machine; this agent has a new identity",
    );
  if (routed !== undefined) state.routed = routed;
  state.session = startSession({
    ...{ connection, clock, log, signal, endSignal, lateClient, lateEndpoints, runner },
    hostName: config.hostName,
    instanceId: instance.id,
    machine: () => `${hostname()} (${addressOf(parts.address()) ?? state.routed ?? "no address"})`,
    create: config.register ? () => addressesNow(wiring, parts) : undefined,
    observe: observer.observe,
    onHost: (host) => {
      state.host = host;
      keptHost.save(host);
      store.setQuota(quotaOf(host) ?? config.disk.quota);
      runner.enqueueAll();
    },
  });
  const look = createPauseWatch({ clock, log, onPause: (pause) => wake(parts, pause) });
  followAddress({
    ...{ clock, log, signal, askRoute },
    onLook: (everyMs) => {
      look(everyMs);
      parts.up.look();
    },
    onRouted: (address) => {
      state.routed = address;
    },
    address: () => addressOf(parts.address()),
    onChange: () => {
      // Connections from an old address, or over an old route, lead nowhere: those of watches and downloads too.
      state.session?.wake();
      store.reconnect();
      runner.enqueueAll();
    },
  });
}

/** DHCP or a VPN may come up after the agent. A re-created Host allows the addresses that running engines listen on. */
function addressesNow({ config }: Wiring, { state, address }: Parts): readonly string[] {
  if (config.addresses.length > 0) return config.addresses;
  const now = addressOf(address()) ?? state.routed;
  return now === undefined ? [] : [now];
}

/** Checks engines, and replaces the connections to the cluster and to sources, without waiting for their timeouts. */
function wake({ runner, state, store }: Parts, pause: Pause): void {
  runner.wake(pause);
  state.session?.wake();
  store.reconnect();
}
