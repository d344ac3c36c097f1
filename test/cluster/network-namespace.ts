/** Network namespaces for tests: one veth pair each, addresses that no other run uses, leftovers of killed runs removed. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";

export interface NamespacePair {
  readonly name: string;
  readonly hostAddress: string;
  readonly insideAddress: string;
  readonly remove: () => Promise<void>;
}

const PREFIX = "mbtest-";
const SUBNETS = 250;
const NEEDED = ["ip", "nft", "conntrack", "curl"];

/** Undefined when this machine can make one. */
export function whyNotHere(): string | undefined {
  if (process.platform !== "linux") return "network namespaces need Linux";
  if (process.getuid?.() !== 0) return "network namespaces need root";
  const missing = NEEDED.filter((name) => !isInstalled(name));
  if (missing.length === 0) return undefined;
  return `${missing.join(", ")} not installed: npm run setup -- --for test`;
}

/** 10.77.N.1 on this machine, 10.77.N.2 inside; the device's name makes N ours alone. */
export async function createNamespacePair(): Promise<NamespacePair> {
  await removeLeftovers();
  let cause: unknown;
  const first = Math.floor(Math.random() * SUBNETS);
  for (let step = 0; step < SUBNETS; step += 1) {
    const subnet = (first + step) % SUBNETS;
    const device = `mbtest${subnet}`;
    const name = `${PREFIX}${subnet}-${process.pid}`;
    const named = await ip(["netns", "add", name]).catch((error: unknown) => {
      cause = error;
    });
    if (named === undefined) continue;
    const remove = async () => {
      await ip(["netns", "delete", name]).catch(() => {});
      // Gone with its peer, but only some time after the namespace.
      await ip(["link", "delete", device]).catch(() => {});
    };
    const made = await ip([
      "link",
      "add",
      device,
      "type",
      "veth",
      "peer",
      "name",
      "eth0",
      "netns",
      name,
    ]).then(
      () => true,
      () => false,
    );
    if (!made) {
      await ip(["netns", "delete", name]);
      continue;
    }
    const pair = { name, hostAddress: `10.77.${subnet}.1`, insideAddress: `10.77.${subnet}.2`, remove };
    await configure(pair, device).catch((error) => remove().then(() => Promise.reject(error)));
    return pair;
  }
  throw new Error(`all ${SUBNETS} test networks are in use: ip netns list`, { cause });
}

async function configure(pair: NamespacePair, device: string): Promise<void> {
  const inside = (args: readonly string[]) => ip(["-n", pair.name, ...args]);
  await ip(["address", "add", `${pair.hostAddress}/24`, "dev", device]);
  await ip(["link", "set", device, "up"]);
  await inside(["address", "add", `${pair.insideAddress}/24`, "dev", "eth0"]);
  await inside(["link", "set", "lo", "up"]);
  await inside(["link", "set", "eth0", "up"]);
  // A cluster address is rewritten only after a route to it was found.
  await inside(["route", "add", "default", "via", pair.hostAddress]);
}

/** A namespace's name holds the process that made it; when that is gone nobody else would remove it. */
async function removeLeftovers(): Promise<void> {
  const listed = await ip(["netns", "list"]);
  const names = listed.split("\n").map((line) => line.split(" ")[0] ?? "");
  for (const name of names.filter((text) => text.startsWith(PREFIX))) {
    const [subnet, pid] = name.slice(PREFIX.length).split("-");
    if (existsSync(`/proc/${pid}`)) continue;
    await ip(["netns", "delete", name]).catch(() => {});
    await ip(["link", "delete", `mbtest${subnet}`]).catch(() => {});
  }
}

function ip(args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile("ip", [...args], { timeout: 10_000 }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`ip ${args.join(" ")}: ${stderr.trim() || error.message}`));
    });
  });
}

function isInstalled(name: string): boolean {
  const folders = `${process.env.PATH ?? ""}:/usr/sbin:/sbin`.split(":");
  return folders.some((folder) => folder !== "" && existsSync(path.join(folder, name)));
}
