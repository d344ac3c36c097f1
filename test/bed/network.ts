/** A network of a test's own: a bridge on this machine, and a namespace for each machine that the test plays. */
import { spawnSync } from "node:child_process";
import { existsSync, readlinkSync } from "node:fs";
import path from "node:path";
import { run } from "./run.ts";
import { send } from "./signal.ts";

export interface Station {
  readonly name: string;
  /** For `ip netns exec`. */
  readonly namespace: string;
  readonly address: string;
  /** Before a command line: runs it inside. */
  readonly inside: readonly string[];
}

export interface Network extends AsyncDisposable {
  /** This machine's address on the bridge, which every station reaches. */
  readonly gateway: string;
  readonly cidr: string;
  readonly station: (name: string) => Station;
  /** One more. */
  readonly add: (name: string) => Promise<Station>;
}

const PREFIX = "mbtest-";
const SUBNETS = 250;
const FIRST_HOST = 10;
const NEEDED = ["ip", "nft", "conntrack", "curl"];

/** Undefined where this machine can make one, else the reason for skipping a test. */
export function whyNoNetwork(): string | undefined {
  if (process.platform !== "linux") return "network namespaces need Linux";
  if (process.getuid?.() !== 0) return "network namespaces need root";
  const missing = NEEDED.filter((name) => !isInstalled(name));
  if (missing.length === 0) return undefined;
  return `${missing.join(", ")} not installed: npm run setup -- --for test`;
}

/** 10.78.N.0/24, where N is no other run's; also removes what killed runs left. */
export async function openNetwork(names: readonly string[]): Promise<Network> {
  await removeLeftovers();
  const subnet = await takeSubnet();
  const dispose = () => remove(subnet, process.pid);
  try {
    const base = `10.78.${subnet}`;
    await run("ip", ["address", "add", `${base}.1/24`, "dev", bridgeOf(subnet)]);
    await run("ip", ["link", "set", bridgeOf(subnet), "up"]);
    const stations = new Map<string, Station>();
    const add = async (name: string) => {
      const index = stations.size;
      const station = placeOf(subnet, index, name);
      stations.set(name, station);
      await addStation(subnet, index, station);
      return station;
    };
    for (const name of names) await add(name);
    return {
      add,
      gateway: `${base}.1`,
      cidr: `${base}.0/24`,
      station: (name) => {
        const found = stations.get(name);
        if (found === undefined) throw new Error(`there is no station ${name}`);
        return found;
      },
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
      await run("ip", ["link", "set", bridgeOf(subnet), "alias", pidNamespace()]);
      return subnet;
    } catch (error) {
      cause = error;
    }
  }
  throw new Error(`all ${SUBNETS} test networks are in use: ip link show type bridge`, { cause });
}

function placeOf(subnet: number, index: number, name: string): Station {
  const namespace = `${PREFIX}${subnet}-${process.pid}-${name}`;
  return {
    name,
    namespace,
    address: `10.78.${subnet}.${FIRST_HOST + index}`,
    inside: ["nsenter", `--net=/run/netns/${namespace}`, "--"],
  };
}

async function addStation(subnet: number, index: number, { namespace, address }: Station): Promise<void> {
  const device = `${bridgeOf(subnet)}p${index}`;
  const inside = (args: readonly string[]) => run("ip", ["-n", namespace, ...args]);
  await run("ip", ["netns", "add", namespace]);
  const peer = ["type", "veth", "peer", "name", "eth0", "netns", namespace];
  await run("ip", ["link", "add", device, "master", bridgeOf(subnet), ...peer]);
  await run("ip", ["link", "set", device, "up"]);
  await inside(["address", "add", `${address}/24`, "dev", "eth0"]);
  await inside(["link", "set", "lo", "up"]);
  await inside(["link", "set", "eth0", "up"]);
  // A cluster address is rewritten only after a route to it was found.
  await inside(["route", "add", "default", "via", `10.78.${subnet}.1`]);
}

async function removeLeftovers(): Promise<void> {
  for (const namespace of await namespaces()) {
    const [subnet, pid] = namespace.slice(PREFIX.length).split("-").map(Number);
    if (subnet !== undefined && pid !== undefined && isAbandoned(namespace)) await remove(subnet, pid);
  }
}

const NAME = /^mbtest-(\d+)-(\d+)-/;

/** A namespace's name holds the process that made it; once that is gone nothing else would remove what has the name. */
export function isAbandoned(name: string): boolean {
  const [, subnet, pid] = NAME.exec(name) ?? [];
  if (pid === undefined || existsSync(`/proc/${pid}`)) return false;
  const bridge = spawnSync("ip", ["link", "show", bridgeOf(Number(subnet))], { encoding: "utf8" });
  const [, owner] = /\balias (\S+)/.exec(bridge.stdout) ?? [];
  // A process of another PID namespace is not seen here, whether it lives or not.
  return owner === undefined || owner === pidNamespace();
}

function pidNamespace(): string {
  return readlinkSync("/proc/self/ns/pid");
}

async function remove(subnet: number, pid: number): Promise<void> {
  for (const namespace of await namespaces()) {
    if (!namespace.startsWith(`${PREFIX}${subnet}-${pid}-`)) continue;
    await killProcesses(namespace);
    await run("ip", ["netns", "delete", namespace]).catch(() => {});
  }
  await run("ip", ["link", "delete", bridgeOf(subnet)]).catch(() => {});
}

/** They end with the run that started them, unless that was killed together with its watchdogs. */
async function killProcesses(namespace: string): Promise<void> {
  const pids = await run("ip", ["netns", "pids", namespace]).catch(() => "");
  for (const pid of pids.split("\n").filter((line) => line !== "")) send(Number(pid), "SIGKILL");
}

async function namespaces(): Promise<readonly string[]> {
  const listed = await run("ip", ["netns", "list"]);
  const names = listed.split("\n").map((line) => line.split(" ")[0] ?? "");
  return names.filter((name) => name.startsWith(PREFIX));
}

function bridgeOf(subnet: number): string {
  return `mbtest${subnet}`;
}

function isInstalled(name: string): boolean {
  const folders = `${process.env.PATH ?? ""}:/usr/sbin:/sbin`.split(":");
  return folders.some((folder) => folder !== "" && existsSync(path.join(folder, name)));
}
