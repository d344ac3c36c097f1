/** `metalbridge host add -f`: registers the hosts in a file. A second run adds only the missing hosts. */
import { getCondition } from "../../src/api/conditions.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { LABEL_HOST, NAMESPACE_HOSTS } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import { SECRETS } from "../../src/kube/kinds.ts";
import type { ApiFailure } from "../../src/kube/types.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { unwrapResult } from "../cluster/failure.ts";
import { listAll } from "../cluster/find.ts";
import { forEachConcurrently } from "../program/concurrently.ts";
import { printJson, printNote, writeOut } from "../program/output.ts";
import { ensureNamespace, requirePolicies } from "./access.ts";
import { type AddedHost, type AddFlags, addNotes, issueHostToken, targetOf } from "./add.ts";
import {
  canonicalAddress,
  type HostsFile,
  invalidHostsFile,
  type ListedHost,
  readHostsFile,
} from "./hosts-file.ts";

export interface AddFileFlags extends AddFlags {
  readonly filename: string;
  readonly dryRun?: boolean;
}

type Result = (
  | ({ readonly status: "added" } & AddedHost)
  | { readonly status: "exists" | "would be added" | "not tried"; readonly host: string }
  | { readonly status: "failed"; readonly host: string; readonly error: string }
) & {
  /** The addresses of the Host, if it exists with other addresses than the file. */
  readonly registeredAddresses?: readonly string[] | undefined;
};

/** Failures that apply to every host, so that no further host is tried. */
const FAILS_ALL: readonly ApiFailure["kind"][] = ["forbidden", "unauthorized", "unreachable"];

export async function hostAddFile(flags: AddFileFlags): Promise<void> {
  const file = await readHostsFile(flags.filename);
  await withCluster("host", flags, async (cluster) => {
    await requirePolicies(cluster);
    const existing = await listAll(cluster, HOSTS);
    const missing = missingOf(file, existing, await hostsWithSecrets(cluster));
    await requireAccepted(cluster, file, missing);
    const results =
      flags.dryRun === true
        ? file.hosts.map((host) => planned(host, missing))
        : await addAll(cluster, file, missing, flags);
    const others = otherAddresses(file, existing);
    print(
      results.map((result) => ({ ...result, registeredAddresses: others.get(result.host) })),
      file,
      flags,
    );
  });
}

/** The addresses of each existing Host with other addresses than the file. An existing Host is not changed. */
function otherAddresses(
  { hosts }: HostsFile,
  existing: readonly Host[],
): ReadonlyMap<string, readonly string[]> {
  const listed = new Map(hosts.map(({ name, addresses }) => [name, setOf(addresses)]));
  return new Map(
    existing
      .map(({ metadata, spec }) => [metadata.name, spec.addresses] as const)
      .filter(([name, addresses]) => (listed.get(name) ?? setOf(addresses)) !== setOf(addresses)),
  );
}

/** Returns the same text for the same set of addresses. */
function setOf(addresses: readonly string[]): string {
  return [...new Set(addresses.map((address) => canonicalAddress(address) ?? address))].sort().join(",");
}

/** The hosts without a Host object, and the hosts without an issued token. Throws HostsFileInvalid for an address of another Host. */
function missingOf(
  { hosts, lineOf }: HostsFile,
  existing: readonly Host[],
  issued: ReadonlySet<string>,
): ReadonlySet<string> {
  const byName = new Map(existing.map((host) => [host.metadata.name, host]));
  const listed = new Set(hosts.map(({ name }) => name));
  const owners = new Map(
    existing
      .filter(({ metadata }) => !listed.has(metadata.name))
      .flatMap(({ metadata, spec }) =>
        spec.addresses.flatMap((address) => {
          const one = canonicalAddress(address);
          return one === undefined ? [] : [[one, metadata.name] as const];
        }),
      ),
  );
  const problems = hosts.flatMap(({ addresses }, index) =>
    addresses.flatMap((address) => {
      const owner = owners.get(canonicalAddress(address) ?? "");
      return owner === undefined
        ? []
        : [`${lineOf(index)}: host ${index + 1}: the address ${address} belongs to Host ${owner}`];
    }),
  );
  if (problems.length > 0) throw invalidHostsFile(problems);
  const isMissing = ({ name }: ListedHost) => {
    const host = byName.get(name);
    if (host === undefined) return true;
    return !issued.has(name) && getCondition(host.status?.conditions, "Reachable")?.status !== "True";
  };
  return new Set(hosts.filter(isMissing).map(({ name }) => name));
}

async function hostsWithSecrets(cluster: Cluster): Promise<ReadonlySet<string>> {
  const secrets = await listAll(cluster, SECRETS, { namespace: NAMESPACE_HOSTS, labelSelector: LABEL_HOST });
  return new Set(secrets.map(({ metadata }) => metadata.labels?.[LABEL_HOST] ?? ""));
}

/** Validates every new Host by a dry run before the first is written. */
async function requireAccepted(
  { client }: Cluster,
  { hosts, lineOf }: HostsFile,
  missing: ReadonlySet<string>,
): Promise<void> {
  const problems: string[] = [];
  await forEachConcurrently(
    [...hosts.entries()].filter(([, { name }]) => missing.has(name)),
    async ([index, host]) => {
      const judged = await client.create(HOSTS, hostOf(host), { isDryRun: true });
      if (judged.ok || judged.error.kind === "alreadyExists") return;
      if (judged.error.kind === "invalid") problems.push(`${lineOf(index)}: ${judged.error.message}`);
      else unwrapResult({ verb: "create", kind: HOSTS, name: host.name }, judged);
    },
  );
  if (problems.length > 0) throw invalidHostsFile(problems);
}

async function addAll(
  cluster: Cluster,
  { hosts }: HostsFile,
  missing: ReadonlySet<string>,
  flags: AddFileFlags,
): Promise<readonly Result[]> {
  if (missing.size > 0) await ensureNamespace(cluster, NAMESPACE_HOSTS);
  const target = targetOf(flags);
  const results = new Map<string, Result>();
  let isStopped = false;
  await forEachConcurrently(
    hosts.filter(({ name }) => missing.has(name)),
    async (host) => {
      const { name } = host;
      if (isStopped) return;
      const failed = (failure: ApiFailure, error = explainFailure(failure).message) => {
        if (FAILS_ALL.includes(failure.kind)) isStopped = true;
        results.set(name, { status: "failed", host: name, error });
      };
      const made = await cluster.client.create(HOSTS, hostOf(host));
      if (!made.ok && made.error.kind !== "alreadyExists") return failed(made.error);
      const token = await issueHostToken(cluster, { name, validForMs: flags.validFor, secrets: [] }, target);
      if (token.ok) results.set(name, { status: "added", ...token.value });
      else failed(token.failed.error);
    },
  );
  const otherwise = (host: string): Result => ({ status: missing.has(host) ? "not tried" : "exists", host });
  return hosts.map(({ name }) => results.get(name) ?? otherwise(name));
}

function planned({ name }: ListedHost, missing: ReadonlySet<string>): Result {
  return { status: missing.has(name) ? "would be added" : "exists", host: name };
}

function hostOf({ name, labels, ...spec }: ListedHost): Host {
  return { metadata: { name, labels }, spec } as Host;
}

/** Prints all results first, because tokens were issued. Then throws HostsNotAdded if a host failed. */
function print(results: readonly Result[], { hosts }: HostsFile, flags: AddFileFlags): void {
  const added = results.filter(({ status }) => status === "added").length;
  for (const [index, { host, registeredAddresses: registered }] of results.entries())
    if (registered !== undefined)
      printNote(
        `host ${host} has ${registered.join(", ")}, the file has ${hosts[index]?.addresses.join(", ")}: not changed; to change it, run kubectl edit host ${host}`,
      );
  if (added > 0) addNotes(flags, added);
  if (flags.output === "json") printJson(results);
  else writeOut(results.map((result) => `${renderHostResult(result)}\n`).join(""));
  const counts = new Map<string, number>();
  for (const { status } of results) counts.set(status, (counts.get(status) ?? 0) + 1);
  printNote([...counts].map(([status, count]) => `${count} ${status}`).join(", "));
  const missed = results.filter(({ status }) => status === "failed" || status === "not tried");
  if (missed.length > 0)
    throw new MetalbridgeError(
      "HostsNotAdded",
      `${missed.length} of ${results.length} hosts were not added: ${missed
        .map(({ host }) => host)
        .slice(0, 10)
        .join(", ")}${missed.length > 10 ? ", …" : ""}`,
    );
}

function renderHostResult(result: Result): string {
  switch (result.status) {
    case "added":
      return `${result.host}: ${result.command}`;
    case "failed":
      return `${result.host}: failed: ${result.error}`;
    default:
      return `${result.host}: ${result.status}`;
  }
}
