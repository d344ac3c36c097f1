/** The network of the host: its links, its neighbors, its firewall. */

import type { Firewall, Link, Neighbors } from "../readings.ts";
import { type Check, type CheckFinding, defineCheck } from "./check.ts";
import { quoted } from "./machine.ts";

const darwin = ["darwin"] as const;
const PRIVACY_SINCE = 15;
const FIREWALL = "/usr/libexec/ApplicationFirewall/socketfilterfw";

export const networkChecks: readonly Check[] = [
  defineCheck({
    code: "LocalNetworkBlocked",
    title: "Local Network privacy",
    severity: "error",
    platforms: darwin,
    reason:
      "macOS 15 and later block connections to machines on the same network for all programs but LaunchDaemons, often without a prompt",
    needs: ["machine", "neighbors", "service"],
    judge: ({ machine, neighbors, service: { found } }) => {
      if (Number.parseInt(machine.osVersion, 10) < PRIVACY_SINCE) return "notApplicable";
      if (!isBlocked(neighbors)) return [];
      const peers = neighbors.peers.map(({ address }) => address).join(", ");
      const finding = `the gateway ${neighbors.gateway?.address} answers, but there is no route to ${peers} in the same network`;
      // macOS blocks the terminal that runs doctor; the agent is exempt.
      return found?.kind === "daemon"
        ? [{ finding: `${finding}; the agent, a LaunchDaemon, is exempt`, severity: "note" }]
        : [{ finding }];
    },
  }),
  defineCheck({
    code: "FirewallBlocksAll",
    title: "application firewall",
    severity: "error",
    platforms: darwin,
    reason: "no node can connect to an engine",
    needs: ["firewall"],
    judge: ({ firewall }) =>
      firewall.state === "blockAll" ? [{ finding: "the firewall blocks all incoming connections" }] : [],
  }),
  defineCheck({
    code: "FirewallBlocksEngine",
    title: "application firewall, for each engine",
    severity: "error",
    platforms: darwin,
    reason:
      "connections from nodes are dropped silently, although a test from this Mac succeeds; Homebrew gives each version a new path",
    needs: ["firewall"],
    judge: ({ firewall }) => (firewall.state === "on" ? firewall.programs.flatMap(blocked) : []),
  }),
  defineCheck({
    code: "HostFirewallOn",
    title: "firewall of the host",
    severity: "note",
    platforms: ["linux"],
    reason: "nodes must reach the ports of the engines",
    needs: ["hostFirewall"],
    judge: ({ hostFirewall: { active } }) =>
      active === undefined ? [] : [{ finding: `${active} is active; its rules cannot be read without root` }],
  }),
  defineCheck({
    code: "FastLinkUnused",
    title: "faster links",
    severity: "note",
    reason: "responses and downloads use the link to the cluster, even if a faster link is connected",
    needs: ["links"],
    judge: ({ links }) => fasterLinks(links),
  }),
  defineCheck({
    code: "WifiInUse",
    title: "Wi-Fi",
    severity: "warning",
    reason: "Wi-Fi loses connections for seconds, which makes a host flap",
    needs: ["links"],
    judge: ({ links }) =>
      links
        .filter(({ isRoute, kind }) => isRoute && kind === "wifi")
        .map(({ name }) => ({ finding: `the route to the cluster leads over ${name} (Wi-Fi)` })),
  }),
  defineCheck({
    code: "LinkSlow",
    title: "link speed",
    severity: "warning",
    reason: "a model of 40 GB takes an hour at 100 Mbit/s; such a link is usually a bad cable",
    needs: ["links"],
    judge: ({ links }) =>
      links.flatMap(({ isRoute, kind, name, megabits }) =>
        isRoute && kind === "ethernet" && megabits !== undefined && megabits > 0 && megabits < 1_000
          ? [{ finding: `${name} runs at ${megabits} Mbit/s` }]
          : [],
      ),
  }),
  defineCheck({
    code: "NameNotResolved",
    title: "DNS",
    severity: "error",
    reason: "without these names the API server or the model sources cannot be found",
    needs: ["names"],
    judge: ({ names }) =>
      names.flatMap(({ name, use, error }) =>
        error === undefined
          ? []
          : [{ finding: `${name} (${use}) cannot be resolved: ${error}`, command: `nslookup ${name}` }],
      ),
  }),
];

/** A dead neighbor alone is no evidence: none of them may be reachable, and each refusal must be immediate. */
function isBlocked({ gateway, peers }: Neighbors): boolean {
  const isGatewayUp = gateway?.reach === "answers";
  return isGatewayUp && peers.length > 0 && peers.every(({ reach }) => reach === "noRoute");
}

function blocked({ engine, path, verdict }: Firewall["programs"][number]): readonly CheckFinding[] {
  if (verdict === "permitted") return [];
  const says = {
    blocked: "is blocked",
    unlisted: "is not among the programs that the firewall allows",
    unknown: "cannot be judged: the output of socketfilterfw is not understood",
  }[verdict];
  const program = quoted(path);
  const command = `sudo ${FIREWALL} --add ${program} && sudo ${FIREWALL} --unblockapp ${program}`;
  const severity = verdict === "unknown" ? "warning" : "error";
  return [{ finding: `${engine}: ${path} ${says}`, command, severity }];
}

function fasterLinks(links: readonly Link[]): readonly CheckFinding[] {
  const route = links.find(({ isRoute }) => isRoute);
  if (route === undefined) return [];
  const now = speedOf(route);
  return links
    .filter((link) => !link.isRoute && link.isUp && speedOf(link) > now && speedOf(link) >= 2_500)
    .map(({ name, kind, megabits, address }) => ({
      finding: `${name} (${kind}${megabits === undefined ? "" : `, ${megabits} Mbit/s`}) is up, and the cluster is reached over ${route.name}`,
      command: address === undefined ? undefined : `metalbridge agent --address ${address}`,
    }));
}

/** Thunderbolt bridges report no speed, and carry at least 10 Gbit/s. */
function speedOf({ kind, megabits }: Link): number {
  return megabits ?? (kind === "thunderbolt" ? 10_000 : 0);
}
