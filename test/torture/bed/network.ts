/** A network of its own: a bridge on this machine, and a namespace for each host and for the clients. */
import { existsSync } from "node:fs";
import { HOSTS } from "../plan/catalogue.ts";
import { run } from "./command.ts";

export interface Station {
  readonly name: string;
  readonly address: string;
  /** Before a command line: runs it inside. */
  readonly inside: readonly string[];
}

export interface Network extends AsyncDisposable {
  /** This machine's address on the bridge: API server, controller and models. */
  readonly gateway: string;
  readonly cidr: string;
  readonly hosts: ReadonlyMap<string, Station>;
  readonly clients: Station;
}

const PREFIX = "mbtorture-";
const SUBNETS = 250;

/** 10.78.N.0/24; the bridge's name makes N ours alone. */
export async function openNetwork(): Promise<Network> {
  await removeLeftovers();
  const subnet = await takeSubnet();
  const dispose = () => remove(subnet, process.pid);
  try {
    const base = `10.78.${subnet}`;
    await run("ip", ["address", "add", `${base}.1/24`, "dev", bridgeOf(subnet)]);
    await run("ip", ["link", "set", bridgeOf(subnet), "up"]);
    const hosts = new Map<string, Station>();
    for (const [index, name] of HOSTS.entries()) {
      hosts.set(name, await addStation(subnet, name, `${base}.${10 + index}`));
    }
    const clients = await addStation(subnet, "clients", `${base}.50`);
    return {
      gateway: `${base}.1`,
      cidr: `${base}.0/24`,
      hosts,
      clients,
      [Symbol.asyncDispose]: dispose,
    };
  } catch (error) {
    await dispose();
    throw error;
  }
}

async function takeSubnet(): Promise<number> {
  let cause: unknown;
  const first = Math.floor(Math.random() * SUBNETS);
  for (let step = 0; step < SUBNETS; step += 1) {
    const subnet = (first + step) % SUBNETS;
    try {
      await run("ip", ["link", "add", bridgeOf(subnet), "type", "bridge"]);
      return subnet;
    } catch (error) {
      cause = error;
    }
  }
  throw new Error(`all ${SUBNETS} test networks are in use: ip link show type bridge`, { cause });
}

async function addStation(subnet: number, name: string, address: string): Promise<Station> {
  const space = `${PREFIX}${subnet}-${process.pid}-${name}`;
  const device = `${bridgeOf(subnet)}${name.slice(-1)}`;
  const inside = (args: readonly string[]) => run("ip", ["-n", space, ...args]);
  await run("ip", ["netns", "add", space]);
  const peer = ["type", "veth", "peer", "name", "eth0", "netns", space];
  await run("ip", ["link", "add", device, "master", bridgeOf(subnet), ...peer]);
  await run("ip", ["link", "set", device, "up"]);
  await inside(["address", "add", `${address}/24`, "dev", "eth0"]);
  await inside(["link", "set", "lo", "up"]);
  await inside(["link", "set", "eth0", "up"]);
  // A cluster address is rewritten only after a route to it was found.
  await inside(["route", "add", "default", "via", `10.78.${subnet}.1`]);
  return { name, address, inside: ["nsenter", `--net=/run/netns/${space}`, "--"] };
}

/** A namespace's name holds the process that made it; when that is gone nobody else would remove it. */
async function removeLeftovers(): Promise<void> {
  for (const space of await spaces()) {
    const [subnet, pid] = space.slice(PREFIX.length).split("-").map(Number);
    if (subnet === undefined || pid === undefined || existsSync(`/proc/${pid}`)) continue;
    await remove(subnet, pid);
  }
}

async function remove(subnet: number, pid: number): Promise<void> {
  for (const space of await spaces()) {
    if (space.startsWith(`${PREFIX}${subnet}-${pid}-`)) {
      await run("ip", ["netns", "delete", space]).catch(() => {});
    }
  }
  await run("ip", ["link", "delete", bridgeOf(subnet)]).catch(() => {});
}

async function spaces(): Promise<readonly string[]> {
  const listed = await run("ip", ["netns", "list"]);
  return listed
    .split("\n")
    .map((line) => line.split(" ")[0] ?? "")
    .filter((name) => name.startsWith(PREFIX));
}

function bridgeOf(subnet: number): string {
  return `mbtor${subnet}`;
}
