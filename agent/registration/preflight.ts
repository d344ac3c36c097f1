/** Preflight checks before this machine can serve: its Host, an address, an engine, and the credential's rights. */
import { createServer } from "node:net";
import { type ErrorCode, MetalbridgeError } from "../../src/api/errors.ts";
import { NAMESPACE_HOSTS } from "../../src/api/group.ts";
import { type Host, hostSchema } from "../../src/api/host.ts";
import { ACCESS_REVIEWS } from "../../src/kube/kinds.ts";
import type { AccessReview } from "../../src/kube/objects.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import type { AgentConfig } from "../config/schema.ts";
import { hostProblemOf, type ObservedHost } from "./host-status.ts";

/** Maximum difference of the clocks: the times of tokens and certificates depend on both. */
const CLOCK_MS = 5 * 60_000;

export interface PreflightObservation extends Pick<ObservedHost, "address" | "runtimes"> {
  /** Undefined if the cluster has no Host of this name. */
  readonly host: Host | undefined;
  readonly server: string;
  readonly serverAheadMs: number | undefined;
}

export interface PreflightCheck {
  readonly what: "route" | "clock" | "host" | "address" | "ports" | "engine" | "rights";
  /** Absent when the check passed. */
  readonly code?: ErrorCode;
  readonly text: string;
}

/** docs/add-a-host.md has the same table for users; secrets are needed by some services only. */
const RIGHTS: readonly (readonly [group: string, resource: string, verbs: string, namespace?: string])[] = [
  ["metalbridge.dev", "inferencereplicas", "get list watch patch"],
  ["metalbridge.dev", "inferencereplicas/status", "patch"],
  ["metalbridge.dev", "hosts/status", "patch"],
  ["metalbridge.dev", "hosts", "list watch"],
  ["discovery.k8s.io", "endpointslices", "get list watch patch"],
  ["events.k8s.io", "events", "create patch"],
  // The Lease is named like the Host; RBAC may allow that one only.
  ["coordination.k8s.io", "leases", "get create update", NAMESPACE_HOSTS],
];

/** Runs every check, in the order in which a new host encounters them. */
export async function runPreflight(
  client: KubeClient,
  { hostName, register, portRange }: Pick<AgentConfig, "hostName" | "register" | "portRange">,
  seen: PreflightObservation,
): Promise<readonly PreflightCheck[]> {
  const missing = await missingRights(client, hostName, register && seen.host === undefined);
  return [
    { what: "route", text: `the API server at ${seen.server} answers` },
    checkClock(seen.serverAheadMs),
    checkHost(hostName, register, seen.host),
    checkAddress(hostName, seen),
    ...(seen.address.at === "up" ? [await checkPorts(seen.address.address, portRange)] : []),
    checkEngine(seen),
    missing.length === 0
      ? { what: "rights", text: "the credential has every right the agent needs" }
      : { what: "rights", code: "ApiForbidden", text: `the credential lacks: ${missing.join(", ")}` },
  ];
}

/** One line per check. */
export function renderChecks(checks: readonly PreflightCheck[]): string {
  return checks
    .map(({ what, code, text }) => {
      const result = code === undefined ? "ok" : "FAILED";
      return `${result.padEnd(8)}${what.padEnd(9)}${code === undefined ? text : `${code}: ${text}`}`;
    })
    .join("\n");
}

/** Throws PreflightFailed if a check has failed. */
export function requirePassed(checks: readonly PreflightCheck[]): void {
  const failed = checks.filter(({ code }) => code !== undefined).map(({ what }) => what);
  if (failed.length > 0)
    throw new MetalbridgeError("PreflightFailed", `this host cannot serve yet: ${failed.join(", ")}`);
}

function checkClock(serverAheadMs = 0): PreflightCheck {
  if (Math.abs(serverAheadMs) <= CLOCK_MS)
    return { what: "clock", text: "the clock agrees with the API server's" };
  const minutes = Math.round(Math.abs(serverAheadMs) / 60_000);
  const text = `this machine's clock is ${minutes} min ${serverAheadMs > 0 ? "behind" : "ahead of"} the API server's`;
  return { what: "clock", code: "ClockSkewed", text };
}

/** Checks the route from the cluster to this machine, as far as this machine can. */
async function checkPorts(
  address: string,
  [first, last]: readonly [number, number],
): Promise<PreflightCheck> {
  const range = `${first} to ${last}`;
  for (let port = first; port <= last; port += 1) {
    if (await canListen(address, port))
      return { what: "ports", text: `${address} can serve on ports ${range}; cluster nodes must reach them` };
  }
  return { what: "ports", code: "PortTaken", text: `no port from ${range} can be opened on ${address}` };
}

function canListen(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

function checkHost(hostName: string, register: boolean, host: Host | undefined): PreflightCheck {
  if (host !== undefined) return { what: "host", text: `Host ${hostName} is registered` };
  if (register) return { what: "host", text: `Host ${hostName} does not exist; --register will create it` };
  const text = `there is no Host ${hostName}; create it with: metalbridge host add ${hostName}`;
  return { what: "host", code: "HostNotRegistered", text };
}

function checkAddress(hostName: string, { address, host, runtimes }: PreflightObservation): PreflightCheck {
  if (address.at === "up") return { what: "address", text: `engines will listen on ${address.address}` };
  const known = host ?? hostSchema.parse({ metadata: { name: hostName } });
  const problem = hostProblemOf(known, { address, runtimes });
  return { what: "address", code: address.code, text: problem?.message ?? address.why };
}

function checkEngine({ runtimes, host, address }: PreflightObservation): PreflightCheck {
  if (runtimes.found.length > 0) {
    const found = runtimes.found.map(({ name, version }) => `${name} ${version ?? ""}`.trim());
    return { what: "engine", text: found.join(", ") };
  }
  const known = host ?? hostSchema.parse({ metadata: { name: "unknown" } });
  const up = address.at === "up" ? address : ({ at: "up", address: "" } as const);
  const { code, message } = hostProblemOf(known, { address: up, runtimes }) ?? {
    code: "RuntimeNotInstalled",
    message: "no engine was found on this host",
  };
  return { what: "engine", code, text: message };
}

async function missingRights(
  client: KubeClient,
  hostName: string,
  creates: boolean,
): Promise<readonly string[]> {
  const required = creates ? [...RIGHTS, ["metalbridge.dev", "hosts", "create"] as const] : RIGHTS;
  const answers = await Promise.all(
    required.flatMap(([group, path, verbs, namespace]) =>
      verbs.split(" ").map(async (verb) => {
        const [resource = "", subresource] = path.split("/");
        const resourceAttributes = {
          group,
          resource,
          verb,
          ...(subresource && { subresource }),
          ...(namespace && { namespace, name: hostName }),
        };
        const review: AccessReview = { metadata: { name: "" }, spec: { resourceAttributes } };
        const answer = await client.create(ACCESS_REVIEWS, review);
        return answer.ok && answer.value.status?.allowed === true ? [] : [`${verb} ${path}.${group}`];
      }),
    ),
  );
  return answers.flat();
}
