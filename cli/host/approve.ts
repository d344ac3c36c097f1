/** `metalbridge host approve` and `host reject`: answers to machines that ask to join with the token of a group. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import { NAMESPACE_JOIN } from "../../src/api/group.ts";
import type { HostJoinRequest } from "../../src/api/host-join-request.ts";
import { HOST_JOIN_REQUESTS } from "../../src/api/kinds.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { listAll } from "../cluster/find.ts";
import type { ClusterFlags } from "../cluster/flags.ts";
import { ageOf } from "../program/age.ts";
import { writeOut } from "../program/output.ts";
import { alignColumns } from "../program/table.ts";
import { need } from "./access.ts";
import { isWaiting } from "./token.ts";

/** Digits of the key that are shown and compared. */
const KEY_DIGITS = 16;

export interface RejectFlags extends ClusterFlags {
  readonly because?: string;
}

/** All names are resolved before the first request is answered. */
export async function hostApprove(names: readonly string[], flags: ClusterFlags): Promise<void> {
  await answerAll(names, flags, { approval: "Approved" });
}

export async function hostReject(names: readonly string[], flags: RejectFlags): Promise<void> {
  await answerAll(names, flags, { approval: "Rejected", approvalNote: flags.because });
}

async function answerAll(
  names: readonly string[],
  flags: ClusterFlags,
  answer: Pick<HostJoinRequest["spec"], "approval" | "approvalNote">,
): Promise<void> {
  await withCluster("host", flags, async (cluster) => {
    const waiting = (await listAll(cluster, HOST_JOIN_REQUESTS, { namespace: NAMESPACE_JOIN })).filter(
      ({ status }) => isWaiting(status?.phase),
    );
    const meant = names.map((name) => requestOf(waiting, name));
    for (const { metadata, spec } of meant) {
      const ref = { name: metadata.name, namespace: NAMESPACE_JOIN };
      const operations = Object.entries(answer)
        .filter(([, value]) => value !== undefined)
        .map(([key, value]) => ({ op: "add", path: `/spec/${key}`, value }) as const);
      const guard = { op: "test", path: "/metadata/uid", value: metadata.uid } as const;
      const patched = await cluster.client.jsonPatch(HOST_JOIN_REQUESTS, ref, [guard, ...operations]);
      need({ verb: "patch", kind: HOST_JOIN_REQUESTS, ...ref }, patched);
      const what = answer.approval === "Approved" ? "is approved: the machine joins now" : "is rejected";
      writeOut(`host ${spec.hostName} (key ${keyOf(metadata.name)}) ${what}\n`);
    }
  });
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
  const keys = found.map(({ metadata, spec }) => `${keyOf(metadata.name)} (${spec.addresses.join(", ")})`);
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

function keyOf(publicKey: string): string {
  return publicKey.slice(0, KEY_DIGITS);
}

/** Empty if no machine waits, or if this credential may not list requests. */
export async function readWaiting({ client }: Cluster): Promise<readonly HostJoinRequest[]> {
  const found = await client.list(HOST_JOIN_REQUESTS, { namespace: NAMESPACE_JOIN });
  return found.ok ? found.value.items.filter(({ status }) => isWaiting(status?.phase)) : [];
}

export function renderWaiting(requests: readonly HostJoinRequest[], nowMs: number): string {
  const titles = ["WAITS TO JOIN", "GROUP", "ADDRESS", "MACHINE", "KEY", "AGE"];
  const rows = requests.map(({ metadata, spec }) => [
    ...[spec.hostName, spec.group, spec.addresses.join(","), spec.machine ?? ""],
    ...[keyOf(metadata.name), ageOf(metadata.creationTimestamp, nowMs) ?? ""],
  ]);
  return alignColumns([titles, ...rows]).join("\n");
}
