/** `metalbridge host token`: manages the join tokens of groups, each for a limited number of machines. */
import { isIPv6 } from "node:net";
import { type Command, InvalidArgumentError, Option } from "commander";
import {
  JOIN_LIMIT_MAX,
  JOIN_POLICY,
  type JoinGroup,
  joinAccess,
  joinAccount,
  readJoinGroup,
} from "../../src/api/access/join-group.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { ANNOTATION_JOIN_GROUP, NAMESPACE_HOSTS, NAMESPACE_JOIN } from "../../src/api/group.ts";
import { HOST_JOIN_REQUESTS } from "../../src/api/kinds.ts";
import { RESOURCE_QUOTAS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS } from "../../src/kube/kinds.ts";
import { type IssuedToken, issueToken } from "../../src/kube/token.ts";
import type { KubeObject } from "../../src/kube/types.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { unwrapResult } from "../cluster/failure.ts";
import { listAll } from "../cluster/find.ts";
import {
  addClusterFlags,
  type ClusterFlags,
  countParser,
  durationParser,
  type OutputFormat,
  outputFlag,
  parseDuration,
  parseHostName,
} from "../cluster/flags.ts";
import { printJson, printLine, printNote, printResult } from "../program/output.ts";
import { formatTable } from "../program/table.ts";
import { ensureNamespace, removeOne, requirePolicies } from "./access.ts";
import { joinCommand, targetOf, warnLoopback } from "./add.ts";
import { isAddressOrNetwork } from "./hosts-file.ts";

interface CreateFlags extends ClusterFlags {
  readonly group: string;
  readonly limit: number;
  readonly validFor: number;
  readonly approve: JoinGroup["approve"];
  readonly addresses?: readonly string[];
  readonly namePattern: string;
  readonly server?: string;
  readonly output: OutputFormat;
}

const KINDS = [RESOURCE_QUOTAS, ROLES, ROLE_BINDINGS];
const MANAGER = "metalbridge-host-token";
/** Prefix lengths of the widest private networks: 10.0.0.0/8 and fc00::/7. */
const PRIVATE_BITS = { v4: 8, v6: 7 };
/** `expiresAt` of a group before its token is issued. No machine can join. */
const NOT_ISSUED = "1970-01-01T00:00:00Z";
/** Kubernetes creates an account with this name in every namespace. */
const RESERVED = "default";

export function configureTokens(command: Command): void {
  addClusterFlags(command.command("create"))
    .description("Create a join token for several machines, up to a limit")
    .requiredOption("--group <name>", "name of the group", parseGroup)
    .requiredOption(
      "--limit <n>",
      `maximum number of hosts that may join, up to ${JOIN_LIMIT_MAX}`,
      countParser(1, JOIN_LIMIT_MAX),
    )
    .addOption(
      new Option("--valid-for <time>", "validity of the token, from 10m to 168h")
        .argParser(durationParser("10m", "168h"))
        .default(parseDuration("24h"), "24h"),
    )
    .addOption(
      new Option(
        "--approve <how>",
        "admit machines automatically or after an approval; auto requires --addresses",
      )
        .choices(["auto", "manual"])
        .default("manual"),
    )
    .option("--addresses <cidr...>", "networks or addresses that the hosts must be in", parseNetworks)
    .option(
      "--name-pattern <pattern>",
      "pattern for the names of the hosts, such as mac-*",
      parsePattern,
      "*",
    )
    .option("--server <url>", "URL of the API server for the hosts (default: the server in the kubeconfig)")
    .addOption(outputFlag())
    .action(createToken);
  addClusterFlags(command.command("list"))
    .description("List the groups: limit, joined hosts, waiting machines")
    .addOption(outputFlag())
    .action(listTokens);
  addClusterFlags(command.command("revoke"))
    .description("Revoke the token of a group; hosts that have joined stay")
    .argument("<group>", "name of the group", parseHostName)
    .action(revokeToken);
}

async function createToken(flags: CreateFlags): Promise<void> {
  const { group: name, addresses = [], limit, approve, namePattern } = flags;
  if (approve === "auto" && addresses.length === 0)
    throw new MetalbridgeError("JoinGroupInvalid", "--approve auto requires --addresses", {
      summary: "pass the networks that the machines are in, or approve each host",
      command: `metalbridge host token create --group ${name} --limit ${limit} --approve auto --addresses <cidr>`,
    });
  await withCluster("host", flags, async (cluster) => {
    await requirePolicies(cluster, [JOIN_POLICY]);
    for (const namespace of [NAMESPACE_HOSTS, NAMESPACE_JOIN]) await ensureNamespace(cluster, namespace);
    for (const object of joinAccess()) await applyOne(cluster, object as KubeObject);
    const group = { limit, expiresAt: NOT_ISSUED, approve, addresses: [...addresses], namePattern };
    const account = await ensureAccount(cluster, name, group);
    const { token, expiresAt } = await issueFor(cluster, account, group, flags.validFor);
    const target = targetOf(flags);
    const command = joinCommand(target, token);
    warnLoopback(target);
    if (approve === "auto") warnAboutWideNetworks(addresses, limit);
    printNote(
      `run this command on each machine of the group before ${expiresAt}; without --host-name the machine joins under its own name${approve === "manual" ? ", and waits until you run: metalbridge host approve <host>" : ""}`,
    );
    const answer = { group: name, ...target, token, expiresAt, command };
    // The machines of a group have an installed agent. Only root can store its credential.
    printResult(flags.output, answer, () => `sudo ${command}`);
  });
}

function warnAboutWideNetworks(networks: readonly string[], limit: number): void {
  const wide = networks.filter((network) => {
    const [address = "", bits] = network.split("/");
    return bits !== undefined && Number(bits) < (isIPv6(address) ? PRIVATE_BITS.v6 : PRIVATE_BITS.v4);
  });
  if (wide.length > 0)
    printNote(
      `warning: ${wide.join(", ")} is wider than any private network: anyone with the token can register up to ${limit} machines from it without an approval; see docs/security.md`,
    );
}

/** Creates the account, or returns the account of an earlier call that did not print its token. */
async function ensureAccount({ client }: Cluster, name: string, group: JoinGroup): Promise<KubeObject> {
  const ref = { name, namespace: NAMESPACE_JOIN };
  const made = await client.create(SERVICE_ACCOUNTS, joinAccount(name, group));
  if (made.ok || made.error.kind !== "alreadyExists")
    return unwrapResult({ verb: "create", kind: SERVICE_ACCOUNTS, ...ref }, made);
  const found = unwrapResult(
    { verb: "get", kind: SERVICE_ACCOUNTS, ...ref },
    await client.get(SERVICE_ACCOUNTS, ref),
  );
  if (!isOfGroup(found))
    throw new MetalbridgeError(
      "JoinGroupInvalid",
      `the ServiceAccount ${name} in ${NAMESPACE_JOIN} does not belong to a group`,
      { summary: "choose another group" },
    );
  if (readJoinGroup(found.metadata)?.group.expiresAt === NOT_ISSUED) return found;
  throw new MetalbridgeError("JoinGroupExists", `group ${name} already has a join token`, {
    summary: "revoke it first, or choose another group; hosts that have joined stay",
    command: `metalbridge host token revoke ${name}`,
  });
}

/** The group admits machines once the token's expiry is recorded on the account. */
async function issueFor(
  { client, connection }: Cluster,
  { metadata }: KubeObject,
  group: JoinGroup,
  validForMs: number,
): Promise<IssuedToken> {
  const ref = { name: metadata.name, namespace: NAMESPACE_JOIN };
  const seconds = Math.round(validForMs / 1_000);
  const attempt = { kind: SERVICE_ACCOUNTS, ...ref } as const;
  const issued = unwrapResult(
    { verb: "create", ...attempt },
    await issueToken(connection, { account: ref, seconds }),
  );
  const value = JSON.stringify({ ...group, expiresAt: issued.expiresAt });
  // Only one of two concurrent calls prints a token.
  const guard = { op: "test", path: "/metadata/resourceVersion", value: metadata.resourceVersion } as const;
  const path = `/metadata/annotations/${ANNOTATION_JOIN_GROUP.replace("/", "~1")}`;
  const set = { op: "replace", path, value } as const;
  unwrapResult({ verb: "patch", ...attempt }, await client.jsonPatch(SERVICE_ACCOUNTS, ref, [guard, set]));
  return issued;
}

/** False for the `default` account of Kubernetes and for accounts of other clients. */
function isOfGroup({ metadata }: KubeObject): boolean {
  return metadata.annotations?.[ANNOTATION_JOIN_GROUP] !== undefined;
}

async function applyOne({ client }: Cluster, object: KubeObject): Promise<void> {
  const kind = KINDS.find((candidate) => candidate.kind === object.kind);
  if (kind === undefined) return;
  const { name, namespace } = object.metadata;
  unwrapResult(
    { verb: "patch", kind, name, namespace },
    await client.apply(kind, object, { manager: MANAGER }),
  );
}

async function listTokens(flags: ClusterFlags & { readonly output: OutputFormat }): Promise<void> {
  await withCluster("host", flags, async (cluster) => {
    const namespace = NAMESPACE_JOIN;
    const [accounts, requests] = await Promise.all([
      listAll(cluster, SERVICE_ACCOUNTS, { namespace }),
      listAll(cluster, HOST_JOIN_REQUESTS, { namespace }),
    ]);
    const groups = accounts.flatMap(({ metadata }) => {
      const read = readJoinGroup(metadata);
      if (read === undefined) return [];
      const waiting = requests
        .filter(({ spec, status }) => spec.group === metadata.name && isPendingRequest(status?.phase))
        .map(({ spec }) => spec.hostName)
        .sort();
      return [{ group: metadata.name, ...read.group, joined: Object.keys(read.joined).sort(), waiting }];
    });
    if (flags.output === "json") return printJson(groups);
    const titles = ["GROUP", "JOINED", "WAITING", "APPROVE", "NAMES", "ADDRESSES", "EXPIRES"];
    const rows = groups.map((one) => [
      ...[one.group, `${one.joined.length}/${one.limit}`, String(one.waiting.length), one.approve],
      ...[one.namePattern, one.addresses.join(",") || "any"],
      Date.parse(one.expiresAt) <= Date.now() ? `${one.expiresAt} (expired)` : one.expiresAt,
    ]);
    const none = "no join tokens; to create one: metalbridge host token create";
    printLine(groups.length === 0 ? none : formatTable(titles, rows));
  });
}

/** True also for a request that the controller has not processed yet. */
export function isPendingRequest(phase: string | undefined): boolean {
  return phase === undefined || phase === "Pending";
}

/** Deletes the account first, so that its token creates no new requests. The API server caches the token for some seconds. */
async function revokeToken(name: string, flags: ClusterFlags): Promise<void> {
  await withCluster("host", flags, async (cluster) => {
    const namespace = NAMESPACE_JOIN;
    const accounts = await listAll(cluster, SERVICE_ACCOUNTS, {
      namespace,
      fieldSelector: `metadata.name=${name}`,
    });
    if (!accounts.some(isOfGroup) || !(await removeOne(cluster, SERVICE_ACCOUNTS, { name, namespace })))
      throw new MetalbridgeError("JoinGroupNotFound", `group ${name} has no join token`);
    const requests = await listAll(cluster, HOST_JOIN_REQUESTS, { namespace });
    for (const { metadata, spec } of requests)
      if (spec.group === name)
        await removeOne(cluster, HOST_JOIN_REQUESTS, { name: metadata.name, namespace });
    printLine(`the join token of group ${name} is revoked; hosts that have joined stay`);
  });
}

function parseGroup(text: string): string {
  if (text !== RESERVED) return parseHostName(text);
  throw new InvalidArgumentError(`It must not be ${RESERVED}.`);
}

/** Called for each argument. */
function parseNetworks(text: string, before: readonly string[] = []): readonly string[] {
  const networks = text.split(",").filter(Boolean);
  if (networks.length > 0 && networks.every(isAddressOrNetwork)) return [...before, ...networks];
  throw new InvalidArgumentError("It must be an IP address or a CIDR.");
}

function parsePattern(text: string): string {
  if (/^[a-z0-9*?-]{1,63}$/.test(text)) return text;
  throw new InvalidArgumentError("It must be lowercase letters, digits, '-', '*' and '?'.");
}
