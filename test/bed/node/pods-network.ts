/** Addresses of pods: each node of a network has a subnet, and every node and this machine know the way to all of them. */
import type { Network, Station } from "../network.ts";
import { run } from "../run.ts";

const FIRST_STATION = 10;
const FIRST_SUBNET = 80;
/** 10.80 to 10.95. */
const NODES = 16;

/** Pure: 10.78.N.10 has the pods 10.80.N.0/24, 10.78.N.11 the pods 10.81.N.0/24 and so on. */
export function podSubnetOf({ address }: Pick<Station, "address">): string {
  const [, , network, station] = address.split(".").map(Number);
  const index = (station ?? 0) - FIRST_STATION;
  if (index < 0 || index >= NODES)
    throw new Error(`a network has ${NODES} stations with pods, not ${address}`);
  return `10.${FIRST_SUBNET + index}.${network}.0/24`;
}

/** Also to the pods of nodes that come later. */
export async function routePods({ gateway }: Network, station: Station): Promise<void> {
  const prefix = gateway.slice(0, gateway.lastIndexOf("."));
  const stations = Array.from({ length: NODES }, (_, index) => `${prefix}.${FIRST_STATION + index}`);
  const routes = stations
    .filter((address) => address !== station.address)
    .map((address) => `route add ${podSubnetOf({ address })} via ${address}\n`);
  await run("ip", ["-n", station.namespace, "-batch", "-"], routes.join(""));
  // Goes with the network's bridge.
  await run("ip", ["route", "replace", podSubnetOf(station), "via", station.address]);
}
