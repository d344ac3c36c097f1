/** The cable of one host: cut, cut from the API server alone, slow, lossy, or whole. */

import type { Station } from "../../bed/network.ts";
import { run } from "../../bed/run.ts";

export type LinkState = "whole" | "cut" | "apiCut" | "slow" | "lossy";

/** One packet in ten is lost each way, so that every connection has its delays; loopback is never touched. */
const LOSSY = 'meta oifname != "lo" numgen random mod 100 < 10 drop';

const RULES: Readonly<Record<LinkState, (gateway: string, apiPort: number) => readonly string[]>> = {
  whole: () => [],
  cut: () => ['meta oifname != "lo" drop', 'meta iifname != "lo" drop'],
  apiCut: (gateway, port) => [
    `ip daddr ${gateway} tcp dport ${port} drop`,
    `ip saddr ${gateway} tcp sport ${port} drop`,
  ],
  slow: () => [],
  lossy: () => [LOSSY, LOSSY.replace("oifname", "iifname")],
};

/** Drops packets inside the host's namespace without a word to anyone, as a pulled cable does. */
export async function setLink(
  station: Station,
  state: LinkState,
  api: { readonly gateway: string; readonly port: number },
): Promise<void> {
  const [outgoing, incoming] = RULES[state](api.gateway, api.port);
  const chain = (hook: string, rule: string | undefined) =>
    `chain ${hook} {
type filter hook ${hook} priority 0
${rule ?? ""}
}`;
  const table =
    outgoing === undefined
      ? ""
      : `table inet torture {
${chain("output", outgoing)}
${chain("input", incoming)}
}`;
  // One transaction: the old table goes as the new one comes.
  const script = `table inet torture\ndelete table inet torture\n${table}\n`;
  const [program = "nsenter", ...prefix] = station.inside;
  await run(program, [...prefix, "nft", "-f", "-"], script);
  // Whatever is sent waits in a long queue before a narrow link; nothing is lost.
  const tc = (args: readonly string[]) => run(program, [...prefix, "tc", "qdisc", ...args]);
  if (state === "slow") await tc(["replace", "dev", "eth0", "root", "tbf", ...NARROW]);
  else await tc(["delete", "dev", "eth0", "root"]).catch(() => {});
}

const NARROW = ["rate", "512kbit", "burst", "8k", "latency", "4s"];

/** Another address on the same wire, as a new DHCP lease gives it. */
export async function moveAddress(
  station: Station,
  from: string,
  to: string,
  gateway: string,
): Promise<void> {
  const [program = "nsenter", ...prefix] = station.inside;
  const ip = (args: readonly string[]) => run(program, [...prefix, "ip", ...args]);
  // The old one first: with it goes every other address of its network.
  await ip(["address", "delete", `${from}/24`, "dev", "eth0"]);
  await ip(["address", "add", `${to}/24`, "dev", "eth0"]);
  await ip(["route", "replace", "default", "via", gateway]);
}
