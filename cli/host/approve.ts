/** `metalbridge host approve` and `host reject`: answers to machines that ask to join with the token of a group. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import { NAMESPACE_JOIN } from "../../src/api/group.ts";
import type { HostJoinRequest } from "../../src/api/host-join-request.ts";
import { HOST_JOIN_REQUESTS } from "../../src/api/kinds.ts";
import { keyOf } from "../../src/api/names.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { listAll } from "../cluster/find.ts";
import type { ClusterFlags } from "../cluster/flags.ts";
import { follow } from "../cluster/follow.ts";
import { joinRejectionOf } from "../join/rejection.ts";
import { ageOf } from "../program/age.ts";
import { exitCodes } from "../program/exit-codes.ts";
import { writeErr, writeOut } from "../program/output.ts";
import { listenForStop } from "../program/stop-signals.ts";
import { alignColumns } from "../program/table.ts";
import { unwrapResult } from "./access.ts";
import { isPendingRequest } from "./token.ts";

/** Digits of the key that are shown and compared. */
const KEY_DIGITS = 16;
/** The controller answers within a second, unless it is busy or being replaced. */
const VERDICT_MS = 10_000;

export interface RejectFlags extends ClusterFlags {
  readonly because?: string;
}

/**
 * All names are resolved before the first request is answered. Then waits for what the controller makes of each approval:
 * the limit of a group may be reached, or a name taken. Throws the first rejection once all are printed.
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
      `${rejections.length} of ${approved.size} hosts may not join; the first: ${first.message}`,
    );
  });
}

export async function hostReject(names: readonly string[], flags: RejectFlags): Promise<void> {
  await withCluster("host", flags, async (cluster) => {
    for (const request of await requestsOf(cluster, names)) {
      await answer(cluster, request, { approval: "Rejected", approvalNote: flags.because });
      writeOut(`${nameOf(request)} is rejected\n`);
    }
  });
}

async function requestsOf(cluster: Cluster, names: readonly string[]): Promise<readonly HostJoinRequest[]> {
  const all = await listAll(cluster, HOST_JOIN_REQUESTS, { namespace: NAMESPACE_JOIN });
  const waiting = all.filter(({ status }) => isPendingRequest(status?.phase));
  return names.map((name) => requestOf(waiting, name));
}

async function answer(
  { client }: Cluster,
  { metadata }: HostJoinRequest,
  fields: Pick<HostJoinRequest["spec"], "approval" | "approvalNote">,
): Promise<void> {
  const ref = { name: metadata.name, namespace: NAMESPACE_JOIN };
  const operations = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => ({ op: "add", path: `/spec/${key}`, value }) as const);
  const guard = { op: "test", path: "/metadata/uid", value: metadata.uid } as const;
  const patched = await client.jsonPatch(HOST_JOIN_REQUESTS, ref, [guard, ...operations]);
  unwrapResult({ verb: "patch", kind: HOST_JOIN_REQUESTS, ...ref }, patched);
}

/** Replaces each request by its answered form, as far as the controller answers in time, and prints what became of each. */
async function awaitVerdicts(cluster: Cluster, approved: Map<string, HostJoinRequest>): Promise<void> {
  const { signal } = listenForStop();
  const options = { signal, timeoutMs: VERDICT_MS, tellTrouble: (line: string) => writeErr(`${line}\n`) };
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
    if (end.how === "stopped") process.exitCode = exitCodes.interrupted;
  } finally {
    for (const request of approved.values()) writeOut(`${renderApproval(request)}\n`);
  }
}

/** What became of an approved request, in one line. */
export function renderApproval(request: HostJoinRequest): string {
  return `${nameOf(request)} ${verdictOf(request)}`;
}

function verdictOf(request: HostJoinRequest): string {
  const { phase, message = "no reason given" } = request.status ?? {};
  const rejection = joinRejectionOf(request);
  if (rejection !== undefined) return `is refused: ${rejection.code}: ${message}`;
  if (phase === "Admitted") return "is approved: the machine joins now";
  return "is approved, but the controller has not answered yet: metalbridge host list";
}

function nameOf({ metadata, spec }: HostJoinRequest): string {
  return `host ${spec.hostName} (key ${shortKeyOf(metadata.name)})`;
}

/**
 * By the host's name, or by the first digits of its key, which the machine shows. A machine chooses its name, also one that
 * looks like the key of another: then both are meant.
 */
export function requestOf(waiting: readonly HostJoinRequest[], name: string): HostJoinRequest {
  const found = waiting.filter(
    ({ metadata, spec }) =>
      spec.hostName === name || (name.length >= KEY_DIGITS && metadata.name.startsWith(name)),
  );
  const [only, ...others] = found;
  if (only === undefined)
    throw new MetalbridgeError("JoinRequestNotFound", `no machine waits to join as ${name}`);
  if (others.length === 0) return only;
  const keys = found.map(
    ({ metadata, spec }) => `${shortKeyOf(metadata.name)} (${spec.addresses.join(", ")})`,
  );
  throw new MetalbridgeError(
    "NameAmbiguous",
    `${found.length} machines ask to join as ${name}: ${keys.join(", ")}`,
    {
      // Without a key as an example: it could be that of the wrong machine.
      summary: "name the one by its key, which `metalbridge join` shows on the machine",
      command: "metalbridge host approve <key>",
    },
  );
}

function shortKeyOf(publicKey: string): string {
  return publicKey.slice(0, KEY_DIGITS);
}

/** Empty if no machine waits, or if this credential may not list requests. */
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
  return alignColumns([titles, ...rows]).join("\n");
}
