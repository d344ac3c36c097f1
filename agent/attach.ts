/** The agent and its cluster: what ties the session to the parts that ran before there was one. */
import { HOSTS } from "../src/api/kinds.ts";
import type { KubeConnection } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { followAddress } from "./host/follow-address.ts";
import { createPauseWatch, type Pause } from "./host/pause.ts";
import { routedAddress } from "./host/routed-address.ts";
import type { Parts, Wiring } from "./parts.ts";
import { readInstanceId } from "./registration/instance-id.ts";
import { startSession } from "./session.ts";
import { addressOf, quotaOf } from "./state-views.ts";

/** Reads machine and Host once, for a plan that nothing comes of. */
export async function look(
  { config }: Wiring,
  { state, observer }: Parts,
  connection: KubeConnection,
): Promise<void> {
  const [host, routed] = await Promise.all([
    createClient(connection).get(HOSTS, { name: config.hostName }),
    routedAddress(connection.server),
    observer.observe(),
  ]);
  if (host.ok) state.host = host.value;
  if (routed !== undefined) state.routed = routed;
}

/** Begins the life with the cluster, and follows sleep and addresses from then on. */
export async function attach(wiring: Wiring, parts: Parts, connection: KubeConnection): Promise<void> {
  const { config, clock, log, signal, endSignal } = wiring;
  const { state, keptHost, store, observer, runner, lateClient, lateEndpoints } = parts;
  delete state.connectTrouble;
  const askRoute = config.addresses.length > 0 ? undefined : () => routedAddress(connection.server);
  const routed = await askRoute?.();
  if (routed !== undefined) state.routed = routed;
  state.session = startSession({
    ...{ connection, clock, log, signal, endSignal, lateClient, lateEndpoints, runner },
    hostName: config.hostName,
    instanceId: await readInstanceId(config.stateDir),
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
      // Connections from an old address, or over an old route, lead nowhere, the watches' too.
      state.session?.wake();
      runner.enqueueAll();
    },
  });
}

/** DHCP or a VPN may come up after the agent. A Host that is made anew allows what the engines of the last one listen on. */
function addressesNow({ config }: Wiring, { state, address }: Parts): readonly string[] {
  if (config.addresses.length > 0) return config.addresses;
  const now = addressOf(address()) ?? state.routed;
  return now === undefined ? [] : [now];
}

/** Engines are asked and the cluster is told at once: in sleep nobody could be. */
function wake({ runner, state }: Parts, pause: Pause): void {
  runner.wake(pause);
  state.session?.wake();
}
