/** Reads the links and neighbors of a Mac with `networksetup`, `ifconfig`, `route` and `arp`. */
import { isIP } from "node:net";
import type { Link, Neighbors, Reachability, Reading } from "../../doctor/readings.ts";
import type { RunTool } from "../../util/command.ts";
import { readTool } from "./reading.ts";

/** Tries to open a connection, and resolves to the result. */
export type TryReach = (address: string) => Promise<Reachability>;

/** A few neighbors are enough, because macOS privacy blocks all of them or none. */
const MAX_PEERS = 4;

export async function readLinks(run: RunTool, server: string | undefined): Promise<Reading<readonly Link[]>> {
  const [ports, interfaces, route] = await Promise.all([
    readTool(run, ["networksetup", "-listallhardwareports"], parsePorts),
    readTool(run, ["ifconfig", "-a"], (text) => text),
    readTool(run, ["route", "-n", "get", server ?? "default"], parseRoute),
  ]);
  if ("unknown" in ports) return ports;
  if ("unknown" in interfaces) return interfaces;
  if ("unknown" in route) return route;
  return { value: linksOf(ports.value, interfaces.value, route.value.device) };
}

/** Unknown if there is nothing to compare with: no neighbor is known, or the gateway does not answer. */
export async function readNeighbors(run: RunTool, tryReach: TryReach): Promise<Reading<Neighbors>> {
  const [route, known] = await Promise.all([
    readTool(run, ["route", "-n", "get", "default"], parseRoute),
    readTool(run, ["arp", "-an"], parseArp),
  ]);
  if ("unknown" in route) return route;
  if ("unknown" in known) return known;
  const { gateway, device } = route.value;
  if (gateway === undefined) return { unknown: "this machine has no gateway" };
  const peers = known.value
    .filter((peer) => peer.device === device && peer.address !== gateway)
    .slice(0, MAX_PEERS);
  if (peers.length === 0) return { unknown: "no other machine of this network is known to compare with" };
  const [reach, ...reaches] = await Promise.all(
    [gateway, ...peers.map(({ address }) => address)].map(tryReach),
  );
  if (reach !== "answers") return { unknown: `the gateway ${gateway} answers on no port that was tried` };
  return {
    value: {
      gateway: { address: gateway, reach },
      peers: peers.map(({ address }, index) => ({ address, reach: reaches[index] ?? "silent" })),
    },
  };
}

function parsePorts(text: string): ReadonlyMap<string, Link["kind"]> | undefined {
  const found = [...text.matchAll(/^Hardware Port: (.+)\nDevice: (\S+)/gm)];
  return found.length === 0
    ? undefined
    : new Map(found.map(([, port = "", device = ""]) => [device, kindOf(port)]));
}

function kindOf(port: string): Link["kind"] {
  if (/wi-?fi|airport/i.test(port)) return "wifi";
  if (/thunderbolt (bridge|\d)/i.test(port)) return "thunderbolt";
  return /ethernet|lan\b/i.test(port) ? "ethernet" : "other";
}

function linksOf(kinds: ReadonlyMap<string, Link["kind"]>, ifconfig: string, route: string): readonly Link[] {
  const blocks = ifconfig.split(/^(?=\S)/m);
  return blocks.flatMap((block) => {
    const name = /^(\S+?):/.exec(block)?.[1];
    const kind = name === undefined ? undefined : kinds.get(name);
    if (name === undefined || kind === undefined) return [];
    const address = /^\s+inet (\S+)/m.exec(block)?.[1];
    const megabits = speedOf(/^\s+media: (.*)$/m.exec(block)?.[1]);
    return [{ name, kind, isUp: /status: active/.test(block), isRoute: name === route, address, megabits }];
  });
}

/** Parses `autoselect (10Gbase-T <full-duplex>)` or `autoselect (1000baseT <…>)`. */
function speedOf(media: string | undefined): number | undefined {
  const [, number, unit] = /\((\d+(?:\.\d+)?)(G?)base/i.exec(media ?? "") ?? [];
  return number === undefined ? undefined : Number(number) * (unit === "" ? 1 : 1_000);
}

function parseRoute(text: string): { readonly gateway?: string; readonly device: string } | undefined {
  const device = /^\s*interface: (\S+)/m.exec(text)?.[1];
  const gateway = /^\s*gateway: (\S+)/m.exec(text)?.[1];
  if (device === undefined) return undefined;
  return gateway !== undefined && isIP(gateway) !== 0 ? { gateway, device } : { device };
}

/** Parses complete entries of single machines. */
function parseArp(
  text: string,
): readonly { readonly address: string; readonly device: string }[] | undefined {
  const found = [...text.matchAll(/\((\d[\d.]+)\) at (\S+) on (\S+)/g)];
  if (found.length === 0 && text.trim() !== "") return undefined;
  return found.flatMap(([, address = "", mac = "", device = ""]) => {
    const isOne = !/incomplete|^ff:ff|^1:0:5e|^01:00:5e/i.test(mac);
    return isOne ? [{ address, device }] : [];
  });
}
