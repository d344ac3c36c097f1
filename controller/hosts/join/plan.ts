/** Decides whether a request to join is admitted. Pure. */

import { JOIN_TOKEN_SECONDS } from "../../../src/api/access/account.ts";
import { type JoinedHosts, type JoinGroup, matchesPattern } from "../../../src/api/access/join-group.ts";
import type { ErrorCode } from "../../../src/api/errors.ts";
import { ANNOTATION_JOIN_REQUEST } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { HostJoinRequest } from "../../../src/api/host-join-request.ts";
import { isAddressWithin } from "../../../src/util/ip-address.ts";

export interface JoinObserved {
  readonly request: HostJoinRequest;
  /** Undefined once the group's token is revoked. */
  readonly account: { readonly group: JoinGroup; readonly joined: JoinedHosts } | undefined;
  readonly hosts: readonly Host[];
}

export type JoinStep =
  /** The machine can no longer read the request, or its answer has expired. */
  | { readonly do: "remove"; readonly because: string }
  | { readonly do: "keep"; readonly recheckAfterMs: number }
  | { readonly do: "wait"; readonly message: string; readonly recheckAfterMs: number }
  | { readonly do: "reject"; readonly reason: ErrorCode; readonly message: string }
  | { readonly do: "admit" };

/** A rejected request stays for this long, so that a machine that retries finds the answer. */
const KEEP_REJECTED_MS = 600_000;
/** An admitted request stays while the join token in it can be valid. */
const KEEP_ADMITTED_MS = JOIN_TOKEN_SECONDS * 1_000;
/** A revoked token is noticed within this time. `metalbridge host token revoke` removes the requests directly. */
const RECHECK_MS = 60_000;

export function planJoin(observed: JoinObserved, nowMs: number): JoinStep {
  const { request, account } = observed;
  const { phase, decidedAt = "" } = request.status ?? {};
  if (account === undefined) return { do: "remove", because: "the token of its group was revoked" };
  const leftMs = Date.parse(account.group.expiresAt) - nowMs;
  if (leftMs <= 0) return { do: "remove", because: "the token of its group has expired" };
  if (phase === "Admitted" || phase === "Rejected") {
    const retentionMs = phase === "Admitted" ? KEEP_ADMITTED_MS : KEEP_REJECTED_MS;
    const keepMs = Date.parse(decidedAt) + retentionMs - nowMs;
    if (!(keepMs > 0)) return { do: "remove", because: "it was answered long ago" };
    return { do: "keep", recheckAfterMs: Math.min(keepMs, leftMs, RECHECK_MS) };
  }
  const refusal = refuse(observed, account);
  if (refusal !== undefined) return { do: "reject", reason: refusal[0], message: refusal[1] };
  if (account.group.approve === "auto" || request.spec.approval === "Approved") return { do: "admit" };
  const message = `an administrator has to approve it: metalbridge host approve ${request.spec.hostName}`;
  return { do: "wait", message, recheckAfterMs: Math.min(leftMs, RECHECK_MS) };
}

type Refusal = readonly [reason: ErrorCode, message: string];

function refuse(
  { request, hosts }: JoinObserved,
  { group, joined }: NonNullable<JoinObserved["account"]>,
): Refusal | undefined {
  const { spec, metadata } = request;
  if (spec.approval === "Rejected")
    return ["JoinDeclined", `an administrator has rejected it: ${spec.approvalNote ?? "no reason given"}`];
  const taken = hosts.find((host) => host.metadata.name === spec.hostName);
  if (taken !== undefined && isUnfinished(taken, metadata.name)) return undefined;
  return (
    notCovered(request, group) ??
    (taken === undefined ? undefined : nameTaken(request, taken)) ??
    machineKnown(request, hosts, joined) ??
    addressTaken(request, hosts) ??
    limitReached(request, group, joined)
  );
}

/**
 * True if an interrupted pass created the Host for this request. False once an agent has reported: another token would
 * invalidate its credential, and every host can read the key in the annotation.
 */
function isUnfinished({ metadata, status }: Host, request: string): boolean {
  return metadata.annotations?.[ANNOTATION_JOIN_REQUEST] === request && status?.info === undefined;
}

function notCovered({ spec }: HostJoinRequest, { namePattern, addresses }: JoinGroup): Refusal | undefined {
  if (!matchesPattern(spec.hostName, namePattern))
    return ["JoinNotAllowed", `the token of group ${spec.group} admits names such as ${namePattern} only`];
  const outside = spec.addresses.find((one) => addresses.length > 0 && !isAddressWithin(one, addresses));
  if (outside === undefined) return undefined;
  return [
    "JoinNotAllowed",
    `the address ${outside} is outside ${addresses.join(", ")}, which the token of group ${spec.group} admits`,
  ];
}

function nameTaken({ spec }: HostJoinRequest, { metadata, status }: Host): Refusal {
  const { name } = metadata;
  const isSame = spec.machineId !== undefined && status?.info?.machineId === spec.machineId;
  const state = isSame ? `this machine is Host ${name} already` : `there is a Host ${name} already`;
  const condition = isSame ? "it has lost its credential" : "it is this machine";
  return ["JoinNameTaken", `${state}; if ${condition}: metalbridge host add ${name}`];
}

/** Compares with the machine IDs that Hosts report, and with those of admitted machines that have not reported yet. */
function machineKnown(
  { spec }: HostJoinRequest,
  hosts: readonly Host[],
  joined: JoinedHosts,
): Refusal | undefined {
  const { machineId, hostName } = spec;
  if (machineId === undefined) return undefined;
  const found = hosts.find(
    ({ metadata: { name }, status }) =>
      name !== hostName && (status?.info?.machineId ?? joined[name]?.machineId) === machineId,
  );
  if (found === undefined) return undefined;
  const { name } = found.metadata;
  return [
    "JoinMachineKnown",
    `this machine is Host ${name}; join as ${name} with a command of \`metalbridge host add ${name}\`, or first: metalbridge host remove ${name}`,
  ];
}

function addressTaken({ spec }: HostJoinRequest, hosts: readonly Host[]): Refusal | undefined {
  for (const host of hosts) {
    const { name } = host.metadata;
    // Several hosts may be registered for one network.
    const single = host.spec.addresses.filter((entry) => !entry.includes("/"));
    const taken = spec.addresses.find(
      (address) => name !== spec.hostName && isAddressWithin(address, single),
    );
    if (taken !== undefined) return ["JoinAddressTaken", `the address ${taken} is that of Host ${name}`];
  }
  return undefined;
}

/** A host keeps its place, even if it is removed and joins again under its name. */
function limitReached(
  { spec }: HostJoinRequest,
  { limit }: JoinGroup,
  joined: JoinedHosts,
): Refusal | undefined {
  const others = Object.keys(joined).filter((name) => name !== spec.hostName).length;
  if (others < limit) return undefined;
  return ["JoinLimitReached", `all ${limit} hosts that the token of group ${spec.group} admits have joined`];
}
