/** `metalbridge host add`: registers hosts, and prints the command by which each machine joins. */
import { randomBytes } from "node:crypto";
import { HOST_TOKEN_SECONDS } from "../../src/api/access/account.ts";
import { getCondition } from "../../src/api/conditions.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { NAMESPACE_HOSTS } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import { serverOf } from "../../src/kube/client/kubeconfig.ts";
import { type AccessResult, issueJoinToken } from "../../src/kube/host-access.ts";
import type { ObjectRef } from "../../src/kube/types.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { findIfPresent } from "../cluster/find.ts";
import type { ClusterFlags, OutputFormat } from "../cluster/flags.ts";
import { confirm } from "../program/confirm.ts";
import { writeErr, writeOut } from "../program/output.ts";
import {
  ensureNamespace,
  hostSecretsOf,
  requirePolicies,
  unwrapAccessResult,
  unwrapResult,
} from "./access.ts";

export interface AddFlags extends ClusterFlags {
  readonly address?: readonly string[];
  readonly server?: string;
  readonly validFor: number;
  readonly yes?: boolean;
  readonly output?: OutputFormat;
}

/** A host as the command line names it: `mini-1`, or with its own addresses as `mini-1=192.168.1.21,192.168.7.21`. */
export interface HostArgument {
  readonly name: string;
  readonly addresses: readonly string[] | undefined;
}

/** What `--output json` prints of each host. */
export interface AddedHost {
  readonly host: string;
  readonly server: string;
  readonly caData: string | undefined;
  readonly token: string;
  readonly expiresAt: string;
  readonly command: string;
}

const DAY_S = 86_400;

/** Every step may be repeated; only the Secrets, and with them the tokens, are new ones each time. */
export async function hostAdd(hosts: readonly HostArgument[], flags: AddFlags): Promise<void> {
  await withCluster("host", flags, async (cluster) => {
    await requirePolicies(cluster);
    if (flags.yes !== true) await confirmEnd(cluster, hosts);
    await ensureNamespace(cluster, NAMESPACE_HOSTS);
    const target = targetOf(flags);
    const added: AddedHost[] = [];
    for (const { name, addresses } of hosts) {
      aside(await writeHost(cluster, name, addresses ?? flags.address));
      added.push(
        unwrapAccessResult(await issueHostToken(cluster, { name, validForMs: flags.validFor }, target)),
      );
    }
    addNotes(flags, hosts.length);
    const text =
      flags.output === "json"
        ? JSON.stringify(added, undefined, 2)
        : added.map(({ command }) => command).join("\n");
    writeOut(`${text}\n`);
  });
}

/** The tokens of an agent that runs end with the Secret that is replaced. */
async function confirmEnd(cluster: Cluster, hosts: readonly HostArgument[]): Promise<void> {
  const live: string[] = [];
  for (const { name } of hosts) {
    const host = await findIfPresent(cluster, HOSTS, name);
    const isReachable = getCondition(host?.status?.conditions, "Reachable")?.status === "True";
    if (isReachable && (await hostSecretsOf(cluster, name)).length > 0) live.push(name);
  }
  if (live.length === 0) return;
  aside(
    `an agent is connected as ${live.join(", ")}; its credential ends now, and its replicas leave their Services after 40 s unless the machine joins again`,
  );
  aside("to change only the addresses: kubectl edit host <host>");
  await confirm("issue a new credential?");
}

export interface JoinTarget {
  readonly server: string;
  readonly caData: string | undefined;
}

/** The API server as the machines reach it. */
export function targetOf(flags: ClusterFlags & Pick<AddFlags, "server">): JoinTarget {
  const { server, caData } = serverOf({ kubeconfigPath: flags.kubeconfig, context: flags.context });
  return { server: flags.server ?? server, caData };
}

export function joinCommand({ server, caData }: JoinTarget, token: string): string {
  const ca = caData === undefined ? "" : ` --ca-data ${caData}`;
  return `metalbridge join --server ${server}${ca} --token ${token}`;
}

/** Notes for the person who runs the printed commands on the machines. */
export function addNotes(flags: AddFlags, count: number): void {
  warnLoopback(targetOf(flags));
  aside(
    `run ${count === 1 ? "this" : "each"} on the machine, with sudo for an installed agent, once and within ${validity(flags.validFor)}; its own credential is then valid for up to ${HOST_TOKEN_SECONDS / DAY_S} days at a time, and the agent renews it:`,
  );
}

function validity(ms: number): string {
  const minutes = ms / 60_000;
  return minutes % 60 === 0 ? `${minutes / 60} h` : `${minutes} min`;
}

export function warnLoopback({ server }: JoinTarget): void {
  if (URL.canParse(server) && /^(127\.|localhost$|\[::1\])/.test(new URL(server).hostname))
    aside(`${server} is an address of this machine only; for another machine pass --server`);
}

/** Account and join token of one host. */
export async function issueHostToken(
  cluster: Cluster,
  host: { readonly name: string; readonly validForMs: number; readonly secrets?: readonly ObjectRef[] },
  target: JoinTarget,
): Promise<AccessResult<AddedHost>> {
  const { name, validForMs, secrets } = host;
  const generation = randomBytes(8).toString("hex");
  const seconds = Math.round(validForMs / 1_000);
  const issued = await issueJoinToken(cluster, { host: name, generation, seconds, secrets });
  if (!issued.ok) return issued;
  const { token, expiresAt } = issued.value;
  return {
    ok: true,
    value: { host: name, ...target, token, expiresAt, command: joinCommand(target, token) },
  };
}

async function writeHost(
  { client }: Cluster,
  name: string,
  addresses: readonly string[] | undefined,
): Promise<string> {
  const found = await client.get(HOSTS, { name });
  if (found.ok && addresses === undefined) return `host ${name} is registered already`;
  if (found.ok) {
    const value = { ...found.value.spec, addresses: [...(addresses ?? [])] };
    if (JSON.stringify(found.value.spec.addresses) === JSON.stringify(addresses))
      return `host ${name} is registered already`;
    const guard = { op: "test", path: "/metadata/uid", value: found.value.metadata.uid } as const;
    const set = { op: "add", path: "/spec/addresses", value: value.addresses } as const;
    unwrapResult({ verb: "patch", kind: HOSTS, name }, await client.jsonPatch(HOSTS, { name }, [guard, set]));
    return `host ${name} may serve on ${value.addresses.join(", ")}`;
  }
  if (found.error.kind !== "notFound") unwrapResult({ verb: "get", kind: HOSTS, name }, found);
  if (addresses === undefined)
    throw new MetalbridgeError("HostAddressesNeeded", `there is no Host ${name} yet`, {
      summary: "pass the addresses at which cluster nodes reach the machine",
      command: `metalbridge host add ${name} --address <address>`,
    });
  const host = { metadata: { name }, spec: { addresses: [...addresses] } } as unknown as Host;
  unwrapResult({ verb: "create", kind: HOSTS, name }, await client.create(HOSTS, host));
  return `host ${name} is registered for ${addresses.join(", ")}`;
}

/** On standard error: standard output holds the command alone. */
function aside(line: string): void {
  writeErr(`${line}\n`);
}
