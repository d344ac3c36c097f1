/** From a change of the host's address to the old endpoint's end and the new one's readiness. */
import { setTimeout as pause } from "node:timers/promises";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import { livingEngines } from "../../../test/bed/engines.ts";
import { addHost } from "../../../test/bed/identity.ts";
import { openNetwork } from "../../../test/bed/network.ts";
import { run } from "../../../test/bed/run.ts";
import { addFleet, type Bed, openOn } from "../beds/bed.ts";
import { measured, type ScenarioResult } from "../beds/measurement.ts";
import { isSliceReady } from "../beds/plane.ts";

/** Even: there and back again in turn, so that each kind of change ends at the address it began with. */
const ROUNDS = 6;
/** The agent reads its addresses once a second: changes are spread over that second, whatever it did before. */
const READ_MS = 1_000;
const WITHDRAWN = { max: 2_000 };
const READY = { max: 5_000 };

/** Two ways in which an address becomes another, and two in which it does not. */
export async function measureAddressChanges(): Promise<readonly ScenarioResult[]> {
  await using host = await openMovingHost();
  await host.createService(SERVICE);
  await untilReadyAt(host, host.addresses[0]);
  const replaced = await each(host, replace);
  const second = await measureSecond(host);
  const later = await each(host, replaceLater);
  const blips = await measureBlips(host);
  const lines = (what: string, { withdrawn, ready }: Changes): ScenarioResult[] => [
    measured(`${what} → old endpoint withdrawn`, "ms", withdrawn, WITHDRAWN),
    measured(`${what} → slice ready at the new address`, "ms", ready, READY),
  ];
  return [
    ...lines("address changed", replaced),
    second,
    ...lines("another address after 3 s without", later),
    blips,
  ];
}

const SERVICE = "moving";

interface Changes {
  readonly withdrawn: number[];
  readonly ready: number[];
}

/** Resolves with the moment from which the host had the new address. */
type Change = (host: MovingHost, from: string, to: string) => Promise<number>;

/** There and back again, in turn. */
async function each(host: MovingHost, change: Change): Promise<Changes> {
  const changes: Changes = { withdrawn: [], ready: [] };
  const [one, other] = host.addresses;
  for (let round = 0; round < ROUNDS; round++) {
    const [from, to] = round % 2 === 1 ? [other, one] : [one, other];
    await pause((round * READ_MS) / ROUNDS);
    const { withdrawnMs, readyMs } = await changeOnce(host, change, from, to);
    changes.withdrawn.push(withdrawnMs);
    changes.ready.push(readyMs);
  }
  return changes;
}

async function changeOnce(host: MovingHost, change: Change, from: string, to: string) {
  const withdrawn = host.changed.until(`the withdrawal of ${from}`, () =>
    isReadyAt(host, from) ? undefined : performance.now(),
  );
  const ready = host.changed.until(`a slice that is ready at ${to}`, () =>
    isReadyAt(host, to) ? performance.now() : undefined,
  );
  const [changedAt, withdrawnAt, readyAt] = await Promise.all([change(host, from, to), withdrawn, ready]);
  return { withdrawnMs: withdrawnAt - changedAt, readyMs: readyAt - changedAt };
}

/** As a new DHCP lease, or another network on the same wire. */
const replace: Change = async (host, from, to) => {
  const changedAt = performance.now();
  await host.ip([...remove(from), ...add(to, host.gateway)]);
  return changedAt;
};

const AWAY_MS = 3_000;

/** As another Wi-Fi: for a while there is no network at all. */
const replaceLater: Change = async (host, from, to) => {
  await host.ip(remove(from));
  await pause(AWAY_MS);
  const changedAt = performance.now();
  await host.ip(add(to, host.gateway));
  return changedAt;
};

function remove(address: string): readonly string[] {
  return [`address delete ${address}/24 dev eth0`];
}

/** With its network the default route went too. */
function add(address: string, gateway: string): readonly string[] {
  return [`address add ${address}/24 dev eth0`, `route replace default via ${gateway}`];
}

const BLIP_MS = 500;
/** Longer than the agent waits before it moves an engine. */
const WATCH_MS = 5_000;

/** As a VPN, or a cable in addition to Wi-Fi: both are up, and the route to the API server takes the new one. The engine stays. */
function measureSecond(host: MovingHost): Promise<ScenarioResult> {
  const [, other] = host.addresses;
  return countRestarts(host, "another address beside it: engine restarts", async () => {
    await host.ip([`address add ${other}/24 dev eth0`, `route add ${host.gateway} dev eth0 src ${other}`]);
    return () => host.ip([`address delete ${other}/24 dev eth0`]);
  });
}

/** The address is gone for half a second, every second time with another one in its place. */
function measureBlips(host: MovingHost): Promise<ScenarioResult> {
  const [address, other] = host.addresses;
  return countRestarts(host, `address gone for ${BLIP_MS} ms: engine restarts`, async (round) => {
    const isReplaced = round % 2 === 1;
    await host.ip([...remove(address), ...(isReplaced ? add(other, host.gateway) : [])]);
    await pause(BLIP_MS);
    await host.ip([...(isReplaced ? remove(other) : []), ...add(address, host.gateway)]);
    return async () => {};
  });
}

/** `disturb` returns what undoes it. */
async function countRestarts(
  host: MovingHost,
  name: string,
  disturb: (round: number) => Promise<() => Promise<void>>,
): Promise<ScenarioResult> {
  const restarts: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    await pause((round * READ_MS) / ROUNDS);
    const before = engineOf(host);
    const undo = await disturb(round);
    await pause(WATCH_MS);
    await untilReadyAt(host, host.addresses[0]);
    restarts.push(engineOf(host) === before ? 0 : 1);
    await undo();
  }
  return measured(name, "restarts", restarts, { max: 0 });
}

function engineOf(host: MovingHost): number | undefined {
  const [pid, ...others] = livingEngines(host.fleet.stateDir).values();
  if (pid === undefined || others.length > 0) throw new Error("there is not exactly one engine");
  return pid;
}

async function untilReadyAt(host: MovingHost, address: string): Promise<void> {
  await host.changed.until(`a slice that is ready at ${address}`, () =>
    isReadyAt(host, address) ? true : undefined,
  );
}

function isReadyAt(host: MovingHost, address: string): boolean {
  return host.slices.list().some((slice) => isSliceReady(slice) && addressesOf(slice).includes(address));
}

function addressesOf(slice: EndpointSlice): readonly string[] {
  return slice.endpoints?.flatMap(({ addresses }) => addresses) ?? [];
}

/** One host in a network of its own, whose addresses can be changed under its agent; control plane and controller stay outside. */
interface MovingHost extends Bed {
  /** Its first address, and another one of the same network. */
  readonly addresses: readonly [string, string];
  /** One command of `ip` in the host's network per entry, all by one process. */
  readonly ip: (commands: readonly string[]) => Promise<void>;
  /** This machine's side: the API server is there. */
  readonly gateway: string;
}

const NAME = "mac-on-the-move";

/** Controller and agent run, Host and Model are ready. The agent finds its address by the route to the API server. */
async function openMovingHost(): Promise<MovingHost> {
  await using stack = new AsyncDisposableStack();
  const network = stack.use(await openNetwork([NAME]));
  const host = await openOn({ bindAddress: network.gateway }, async (plane) => {
    await addHost(plane.controlPlane, NAME, [network.cidr]);
    const { address, inside, namespace } = network.station(NAME);
    const launcher = [...inside, process.execPath];
    const bed = await addFleet(plane, { agents: [{ hostName: NAME, launcher }] });
    const ip: MovingHost["ip"] = async (commands) => {
      await run("ip", ["-n", namespace, "-batch", "-"], `${commands.join("\n")}\n`);
    };
    const addresses = [address, address.replace(/\d+$/, "102")] as const;
    return { ...bed, gateway: network.gateway, addresses, ip };
  });
  stack.use(host);
  const kept = stack.move();
  return { ...host, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}
