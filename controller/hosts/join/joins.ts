/** Admits machines that request to join with the token of a group, one request at a time, so that the limit is exact. */
import { randomBytes } from "node:crypto";
import { JOIN_TOKEN_SECONDS } from "../../../src/api/access/account.ts";
import { type JoinedHosts, readJoinGroup } from "../../../src/api/access/join-group.ts";
import type { ErrorCode } from "../../../src/api/errors.ts";
import { ANNOTATION_JOIN_REQUEST, ANNOTATION_JOINED, NAMESPACE_JOIN } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { HostJoinRequest } from "../../../src/api/host-join-request.ts";
import { HOST_JOIN_REQUESTS, HOSTS } from "../../../src/api/kinds.ts";
import { sealFor } from "../../../src/crypto/join-seal.ts";
import type { KubeConnection } from "../../../src/kube/client/connect.ts";
import { issueJoinToken } from "../../../src/kube/host-access.ts";
import { SERVICE_ACCOUNTS } from "../../../src/kube/kinds.ts";
import { createQueue, type Recheck } from "../../../src/kube/queue.ts";
import type { KubeObject } from "../../../src/kube/types.ts";
import type { WatchedReflector } from "../../../src/kube/watch/catch-up.ts";
import { startReflector } from "../../../src/kube/watch/reflector.ts";
import { isoSeconds } from "../../../src/util/iso-seconds.ts";
import { ApiCallFailed, isSettled } from "../../frame/apply/failure.ts";
import type { ControllerMetrics } from "../../frame/metrics/metrics.ts";
import { versionGuards } from "../../frame/owned/corrections.ts";
import type { ControllerPorts } from "../../frame/ports.ts";
import { planJoin } from "./plan.ts";

export interface JoinPorts extends Pick<ControllerPorts, "client" | "clock" | "log"> {
  readonly connection: KubeConnection;
  readonly watches: Pick<ControllerPorts["watches"], "hosts">;
}

const CONFLICT: Recheck = { recheckAfterMs: 500 };

/** Uses a separate watch, so a controller without permission for the kind, or without the kind, still does its other work. */
export function startJoins(
  options: JoinPorts & { readonly signal: AbortSignal; readonly metrics: Pick<ControllerMetrics, "pass"> },
): WatchedReflector {
  const { clock, signal, metrics } = options;
  const log = options.log.child({ queue: "joins" });
  const queue = createQueue<string>({
    clock,
    log,
    signal,
    concurrency: 1,
    reconcile: (name) => metrics.pass("joins", () => reconcileJoin(options, name)),
  });
  return startReflector({
    connection: options.connection,
    clock,
    log,
    signal,
    kind: HOST_JOIN_REQUESTS,
    namespace: NAMESPACE_JOIN,
    onChange: (_, request, before) => queue.enqueue((request ?? before)?.metadata.name ?? ""),
  });
}

/** Reads the request from the API server: a second token for a request that was just answered would invalidate the first. */
export async function reconcileJoin(ports: JoinPorts, name: string): Promise<Recheck | undefined> {
  const { client, clock, watches, log } = ports;
  const read = await client.get(HOST_JOIN_REQUESTS, { name, namespace: NAMESPACE_JOIN });
  if (!read.ok && isSettled("get a request to join", read)) return undefined;
  if (!read.ok) return CONFLICT;
  const request = read.value;
  const { group, hostName } = request.spec;
  const found = await client.get(SERVICE_ACCOUNTS, { name: group, namespace: NAMESPACE_JOIN });
  if (!found.ok && found.error.kind !== "notFound")
    throw new ApiCallFailed(`get the account of group ${group}`, found.error);
  const account = found.ok ? readJoinGroup(found.value.metadata) : undefined;
  const step = planJoin({ request, account, hosts: watches.hosts.list() }, clock.nowMs());
  switch (step.do) {
    case "keep":
      return step;
    case "remove":
      return removeRequest(ports, request, step.because);
    case "wait":
      await answer(ports, request, { phase: "Pending", message: step.message });
      return step;
    case "reject":
      log.info({ host: hostName, group, reason: step.reason }, "join rejected");
      return reject(ports, request, step.reason, step.message);
    case "admit":
      if (!found.ok || account === undefined) return CONFLICT;
      return admit(ports, request, { object: found.value, joined: account.joined });
    default:
      return step satisfies never;
  }
}

interface Account {
  readonly object: KubeObject;
  readonly joined: JoinedHosts;
}

/** Each step may be repeated. The place is reserved first, because only one of two requests can have the last place. */
async function admit(
  ports: JoinPorts,
  request: HostJoinRequest,
  account: Account,
): Promise<Recheck | undefined> {
  const { log } = ports;
  const { name: key } = request.metadata;
  const { hostName: host, group, machineId } = request.spec;
  if (sealFor(key, "") === undefined)
    return reject(ports, request, "JoinNotAllowed", "the name of the request is no public key");
  const place = { request: key.slice(0, 16), machineId };
  const hasPlace = account.joined[host]?.request === place.request;
  const reserved = hasPlace
    ? account.object
    : await writeJoined(ports, account.object, { ...account.joined, [host]: place });
  if (reserved === undefined) return CONFLICT;
  if (!(await createHost(ports, request))) {
    // Another client has just created the Host, so the next pass rejects the request.
    if (!hasPlace) await writeJoined(ports, reserved, account.joined);
    return CONFLICT;
  }
  const generation = randomBytes(8).toString("hex");
  const issued = await issueJoinToken(ports, { host, generation, seconds: JOIN_TOKEN_SECONDS });
  if (!issued.ok) throw new ApiCallFailed(`issue a join token for host ${host}`, issued.failed.error);
  const isAnswered = await answer(ports, request, {
    phase: "Admitted",
    message: `Host ${host} is registered`,
    decidedAt: isoSeconds(ports.clock.nowMs()),
    sealedToken: sealFor(key, issued.value.token),
  });
  if (isAnswered) log.info({ host, group, key: place.request }, "host joined by the token of a group");
  return isAnswered ? undefined : CONFLICT;
}

/** Undefined if another client wrote first. */
async function writeJoined(
  { client }: JoinPorts,
  { metadata }: KubeObject,
  joined: JoinedHosts,
): Promise<KubeObject | undefined> {
  const path = `/metadata/annotations/${ANNOTATION_JOINED.replace("/", "~1")}`;
  const { name, namespace } = metadata;
  const written = await client.jsonPatch(SERVICE_ACCOUNTS, { name, namespace }, [
    ...versionGuards(metadata),
    { op: "add", path, value: JSON.stringify(joined) },
  ]);
  if (!written.ok) isSettled(`write the hosts of group ${name}`, written);
  return written.ok ? written.value : undefined;
}

/** Returns true if the Host belongs to this request. */
async function createHost({ client }: JoinPorts, { metadata, spec }: HostJoinRequest): Promise<boolean> {
  const { hostName: name, addresses } = spec;
  const annotations = { [ANNOTATION_JOIN_REQUEST]: metadata.name };
  const host = { metadata: { name, annotations }, spec: { addresses } } as unknown as Host;
  const made = await client.create(HOSTS, host);
  if (made.ok) return true;
  if (made.error.kind !== "alreadyExists") throw new ApiCallFailed(`create Host ${name}`, made.error);
  const existing = await client.get(HOSTS, { name });
  return existing.ok && existing.value.metadata.annotations?.[ANNOTATION_JOIN_REQUEST] === metadata.name;
}

async function reject(
  ports: JoinPorts,
  request: HostJoinRequest,
  reason: ErrorCode,
  message: string,
): Promise<Recheck | undefined> {
  const decidedAt = isoSeconds(ports.clock.nowMs());
  const isAnswered = await answer(ports, request, { phase: "Rejected", reason, message, decidedAt });
  return isAnswered ? undefined : CONFLICT;
}

/** Returns false if another client wrote first. */
async function answer(
  { client }: JoinPorts,
  { metadata, status }: HostJoinRequest,
  next: NonNullable<HostJoinRequest["status"]>,
): Promise<boolean> {
  if (status?.phase === next.phase && status.message === next.message) return true;
  const { name, namespace } = metadata;
  const written = await client.jsonPatch(
    HOST_JOIN_REQUESTS,
    { name, namespace },
    [...versionGuards(metadata), { op: "add", path: "/status", value: next }],
    { subresource: "status" },
  );
  return isSettled(`answer the request of host ${name}`, written);
}

async function removeRequest(
  { client, log }: JoinPorts,
  { metadata: { name, namespace, uid }, spec }: HostJoinRequest,
  because: string,
): Promise<Recheck | undefined> {
  const removed = await client.remove(HOST_JOIN_REQUESTS, { name, namespace }, { uid });
  if (removed.ok) log.info({ host: spec.hostName, group: spec.group, because }, "request to join removed");
  return isSettled("remove a request to join", removed) ? undefined : CONFLICT;
}
