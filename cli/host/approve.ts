/** `metalbridge host approve` and `host reject`: answers the requests of machines to join with the token of a group. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import { NAMESPACE_JOIN } from "../../src/api/group.ts";
import type { HostJoinRequest } from "../../src/api/host-join-request.ts";
import { HOST_JOIN_REQUESTS } from "../../src/api/kinds.ts";
import { keyOf } from "../../src/api/names.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { patchObject } from "../cluster/failure.ts";
import { listAll } from "../cluster/find.ts";
import type { ClusterFlags } from "../cluster/flags.ts";
import { follow } from "../cluster/follow.ts";
import { joinRejectionOf } from "../join/rejection.ts";
import { ageOf } from "../program/age.ts";
import { exitCodes } from "../program/exit-codes.ts";
import { printLine } from "../program/output.ts";
import { listenForStop } from "../program/stop-signals.ts";
import { formatTable } from "../program/table.ts";
import { isPendingRequest } from "./token.ts";

/** Number of key digits that are shown and compared. */
const KEY_DIGITS = 16;
/** Time limit for the answer of the controller, which usually takes less than a second. */
const VERDICT_MS = 10_000;

export interface RejectFlags extends ClusterFlags {
  readonly because?: string;
}

/**
 * Resolves all names before it answers the first request. Then waits until the controller has processed each approval: the
 * limit of a group may be reached, or a name taken. Prints all results, then throws the first rejection.
 */
export async function hostApprove(names: readonly string[], flags: ClusterFlags): Promise<void> {
  await withCluster("host", flags, async (cluster) => {
    const approved = new Map<string, HostJoinRequest>();
    try {
      for (const request of await requestsOf(cluster, names)) {
        await answer(cluster, request, { approval: "Approved" });
        approved.set(request.metadata.name, request);
      }
    } finally {
      if (approved.size > 0) await awaitVerdicts(cluster, approved);
    }
    const rejections = [...approved.values()].flatMap((request) => joinRejectionOf(request) ?? []);
    const [first] = rejections;
    if (first === undefined) return;
    if (approved.size === 1) throw first;
    throw new MetalbridgeError(
      first.code,
      `${rejections.length} of ${approved.size} hosts may not join; first: ${first.message}`,
    );
  });
}

export async function hostReject(names: readonly string[], flags: RejectFlags): Promise<void> {
  await withCluster("host", flags, async (cluster) => {
    for (const request of await requestsOf(cluster, names)) {
      await answer(cluster, request, { approval: "Rejected", approvalNote: flags.because });
      printLine(`${nameOf(request)} is rejected`);
    }
  });
}

async function requestsOf(cluster: Cluster, names: readonly string[]): Promise<readonly HostJoinRequest[]> {
  const all = await listAll(cluster, HOST_JOIN_REQUESTS, { namespace: NAMESPACE_JOIN });
  const waiting = all.filter(({ status }) => isPendingRequest(status?.phase));
  return names.map((name) => requestOf(waiting, name));
}

async function answer(
  cluster: Cluster,
  request: HostJoinRequest,
  fields: Pick<HostJoinRequest["spec"], "approval" | "approvalNote">,
): Promise<void> {
  const operations = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => ({ op: "add", path: `/spec/${key}`, value }) as const);
  await patchObject(cluster, HOST_JOIN_REQUESTS, request, operations);
}

/** Waits for the answers of the controller, stores them in `approved`, and prints the result of each request. */
async function awaitVerdicts(cluster: Cluster, approved: Map<string, HostJoinRequest>): Promise<void> {
  const { signal } = listenForStop();
  const options = { signal, timeoutMs: VERDICT_MS };
  try {
    const end = await follow<void>(cluster, options, ({ watch, finish }) => {
      const requests = watch(HOST_JOIN_REQUESTS, { namespace: NAMESPACE_JOIN }, () => {
        for (const key of approved.keys()) {
          const now = requests.get(keyOf({ namespace: NAMESPACE_JOIN, name: key }));
          if (now !== undefined) approved.set(key, now);
        }
        if ([...approved.values()].every(({ status }) => !isPendingRequest(status?.phase))) finish();
      });
    });
    if (end.at === "stopped") process.exitCode = exitCodes.interrupted;
  } finally {
    for (const request of approved.values()) printLine(renderApproval(request));
  }
}

/** The result of an approved request, in one line. */
export function renderApproval(request: HostJoinRequest): string {
  return `${nameOf(request)} ${verdictOf(request)}`;
}

function verdictOf(request: HostJoinRequest): string {
  const { phase, message = "no reason given" } = request.status ?? {};
  const rejection = joinRejectionOf(request);
  if (rejection !== undefined) return `is refused: ${rejection.code}: ${message}`;
  if (phase === "Admitted") return "is approved: the machine is joining";
  return "is approved, but the controller has not answered yet: metalbridge host list";
}

function nameOf({ metadata, spec }: HostJoinRequest): string {
  return `host ${spec.hostName} (key ${shortKeyOf(metadata.name)})`;
}

/**
 * Finds a request by the name of the host, or by the first digits of the key that the machine shows. A machine chooses its
 * own name, which may look like the key of another machine: then the name is ambiguous.
 */
export function requestOf(waiting: readonly HostJoinRequest[], name: string): HostJoinRequest {
  const found = waiting.filter(
    ({ metadata, spec }) =>
      spec.hostName === name || (name.length >= KEY_DIGITS && metadata.name.startsWith(name)),
  );
  const [only, ...others] = found;
  if (only === undefined)
    throw new MetalbridgeError("JoinRequestNotFound", `no machine is waiting to join as ${name}`);
  if (others.length === 0) return only;
  const keys = found.map(
    ({ metadata, spec }) => `${shortKeyOf(metadata.name)} (${spec.addresses.join(", ")})`,
  );
  throw new MetalbridgeError(
    "NameAmbiguous",
    `${found.length} machines ask to join as ${name}: ${keys.join(", ")}`,
    {
      // An example with a key could name the wrong machine.
      summary: "name the one by its key, which `metalbridge join` shows on the machine",
      command: "metalbridge host approve <key>",
    },
  );
}

function shortKeyOf(publicKey: string): string {
  return publicKey.slice(0, KEY_DIGITS);
}

/** Empty if no machine is waiting, or if the credential may not list requests. */
export async function readPendingRequests({ client }: Cluster): Promise<readonly HostJoinRequest[]> {
  const found = await client.list(HOST_JOIN_REQUESTS, { namespace: NAMESPACE_JOIN });
  return found.ok ? found.value.items.filter(({ status }) => isPendingRequest(status?.phase)) : [];
}

export function renderPendingRequests(requests: readonly HostJoinRequest[], nowMs: number): string {
  const titles = ["WAITS TO JOIN", "GROUP", "ADDRESS", "MACHINE", "KEY", "AGE"];
  const rows = requests.map(({ metadata, spec }) => [
    ...[spec.hostName, spec.group, spec.addresses.join(","), spec.machine ?? ""],
    ...[shortKeyOf(metadata.name), ageOf(metadata.creationTimestamp, nowMs) ?? ""],
  ]);
  return formatTable(titles, rows);
}
