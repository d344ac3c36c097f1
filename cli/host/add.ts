/** `metalbridge host add`: registers hosts, and prints the join command for each machine. */
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
import { isDeepEqual } from "../../src/util/deep-equal.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { patchObject, unwrapResult } from "../cluster/failure.ts";
import { findIfPresent } from "../cluster/find.ts";
import type { ClusterFlags, OutputFormat } from "../cluster/flags.ts";
import { confirm } from "../program/confirm.ts";
import { printNote, printResult } from "../program/output.ts";
import { ensureNamespace, hostSecretsOf, requirePolicies, unwrapAccessResult } from "./access.ts";

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

/** Every step can be repeated. Each call replaces the Secrets and thereby the tokens. */
export async function hostAdd(hosts: readonly HostArgument[], flags: AddFlags): Promise<void> {
  await withCluster("host", flags, async (cluster) => {
    await requirePolicies(cluster);
    if (flags.yes !== true) await confirmEnd(cluster, hosts);
    await ensureNamespace(cluster, NAMESPACE_HOSTS);
    const target = targetOf(flags);
    const added: AddedHost[] = [];
    for (const { name, addresses } of hosts) {
      printNote(await writeHost(cluster, name, addresses ?? flags.address));
      added.push(
        unwrapAccessResult(await issueHostToken(cluster, { name, validForMs: flags.validFor }, target)),
      );
    }
    addNotes(flags, hosts.length);
    printResult(flags.output, added, () => added.map(({ command }) => command).join("\n"));
  });
}

/** Replacing the Secret revokes the token of a running agent. */
async function confirmEnd(cluster: Cluster, hosts: readonly HostArgument[]): Promise<void> {
  const live: string[] = [];
  for (const { name } of hosts) {
    const host = await findIfPresent(cluster, HOSTS, name);
    const isReachable = getCondition(host?.status?.conditions, "Reachable")?.status === "True";
    if (isReachable && (await hostSecretsOf(cluster, name)).length > 0) live.push(name);
  }
  if (live.length === 0) return;
  printNote(
    `an agent is connected as ${live.join(", ")}; its credential is revoked now, and its replicas leave their Services after 40 s unless the machine joins again`,
  );
  printNote("to change only the addresses: kubectl edit host <host>");
  await confirm("issue a new credential?");
}

export interface JoinTarget {
  readonly server: string;
  readonly caData: string | undefined;
}

/** The API server and its certificate authority, for the join command. */
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
  printNote(
    `run ${count === 1 ? "this command" : "each command"} once on the machine, within ${validity(flags.validFor)} and with sudo for an installed agent; the agent then renews its own credential, which is valid for up to ${HOST_TOKEN_SECONDS / DAY_S} days:`,
  );
}

function validity(ms: number): string {
  const minutes = ms / 60_000;
  return minutes % 60 === 0 ? `${minutes / 60} h` : `${minutes} min`;
}

export function warnLoopback({ server }: JoinTarget): void {
  if (URL.canParse(server) && /^(127\.|localhost$|\[::1\])/.test(new URL(server).hostname))
    printNote(`${server} is reachable only from this machine; for another machine pass --server`);
}

/** Creates the account of a host, and issues its join token. */
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
  cluster: Cluster,
  name: string,
  addresses: readonly string[] | undefined,
): Promise<string> {
  const found = await findIfPresent(cluster, HOSTS, name);
  if (found !== undefined) {
    if (addresses === undefined || isDeepEqual(found.spec.addresses, addresses))
      return `host ${name} is already registered`;
    await patchObject(cluster, HOSTS, found, [{ op: "add", path: "/spec/addresses", value: addresses }]);
    return `host ${name} may serve on ${addresses.join(", ")}`;
  }
  if (addresses === undefined)
    throw new MetalbridgeError("HostAddressesNeeded", `there is no Host ${name} yet`, {
      summary: "pass the addresses at which cluster nodes reach the machine",
      command: `metalbridge host add ${name} --address <address>`,
    });
  const host = { metadata: { name }, spec: { addresses: [...addresses] } } as unknown as Host;
  unwrapResult({ verb: "create", kind: HOSTS, name }, await cluster.client.create(HOSTS, host));
  return `host ${name} is registered for ${addresses.join(", ")}`;
}
