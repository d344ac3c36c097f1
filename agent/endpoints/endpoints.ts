/** The EndpointSlices of this host's replicas: announced and withdrawn, each write acknowledged by the API server. */
import {
  ANNOTATION_ADDRESSES,
  ANNOTATION_FINGERPRINTS,
  LABEL_HOST,
  MANAGER_AGENT,
  PORT_NAME,
} from "../../src/api/group.ts";
import { keyOf } from "../../src/api/names.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { ENDPOINT_SLICES } from "../../src/kube/kinds.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import type { ApiFailure, ApiResult, KubeClient, ObjectRef } from "../../src/kube/types.ts";
import { waitMs } from "../../src/kube/wait.ts";
import type { WatchedReflector } from "../../src/kube/watch/catch-up.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import { backoffMs } from "../../src/util/backoff.ts";
import { isAddressWithin } from "../../src/util/ip-address.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { addressProblem } from "../host/address.ts";
import type { Announcement, EndpointAddress, EndpointResult, Endpoints } from "../replicas/context/ports.ts";
import type { SliceState } from "../replicas/evidence/observed.ts";
import { createNewestSlices, type NewestSlices } from "./newest-slices.ts";

export interface EndpointsOptions {
  readonly connection: KubeConnection;
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly hostName: string;
  /** Called when the watch shows a changed slice, with the replica's `namespace/name`. */
  readonly onChange: (key: string) => void;
  /** False while another agent holds the host name: then nothing is written. */
  readonly mayWrite?: () => boolean;
  /** The fingerprint of the certificate with which this host serves sealed replicas. */
  readonly fingerprint?: () => string | undefined;
}

export interface SliceEndpoints extends Endpoints {
  readonly watch: WatchedReflector;
  /** Retries writes in backoff at once: the network has changed since they failed. */
  readonly retryNow: () => void;
  /** True if every slice of a sealed replica has the fingerprint; false before the first list. */
  readonly areSealedWith: (fingerprint: string) => boolean;
}

const RETRY = { firstMs: 50, capMs: 2_000 };
/** After this many attempts the write fails; the caller plans again with newer facts. */
const MAX_ATTEMPTS = 8;

/** Starts the watch of this host's slices at once; it ends with the signal. */
export function createEndpoints(options: EndpointsOptions): SliceEndpoints {
  const { client, clock, log, signal, hostName, onChange } = options;
  const slices = createNewestSlices();
  const intents = createIntents();
  const reflector = startReflector<EndpointSlice>({
    ...options,
    kind: ENDPOINT_SLICES,
    labelSelector: `${LABEL_HOST}=${hostName}`,
    onChange: (key, slice) => {
      slices.seen(key, slice);
      onChange(key);
    },
    onListed: () => {
      for (const key of slices.listed(reflector.list())) onChange(key);
    },
    onSynced: () => log.debug({}, "EndpointSlices listed"),
  });

  const writer = createSliceWriter(client, slices);
  let backoff = new AbortController();
  const persist = async (turn: Turn, attempt: () => Promise<WriteAttempt>): Promise<WriteAttempt> => {
    for (let failures = 1; ; failures += 1) {
      if (turn.isSuperseded() || signal.aborted) return { at: "refused", why: "superseded by a newer state" };
      const outcome = await attempt();
      if (outcome.at !== "failed" || failures >= MAX_ATTEMPTS || !isRetryable(outcome.failure))
        return outcome;
      await waitMs(clock, backoffMs(failures, RETRY), AbortSignal.any([signal, backoff.signal]));
    }
  };
  const mayWrite = (): boolean => options.mayWrite?.() ?? true;

  return {
    watch: reflector,
    retryNow: () => {
      backoff.abort();
      backoff = new AbortController();
    },
    areSealedWith: (fingerprint) =>
      reflector.isSynced() &&
      reflector.list().every((slice) => fingerprintsOf(slice)?.includes(fingerprint) !== false),
    state: (replica, desired) => {
      const slice = slices.get(keyOf(replica));
      if (slice !== undefined) return stateOfSlice(slice, desired);
      return reflector.isSynced() ? "missing" : "unknown";
    },
    announce: (replica, endpoint) =>
      intents.take(keyOf(replica), async (turn) => {
        if (!mayWrite()) return notOurs();
        const outcome = await persist(turn, () =>
          writer.write(
            replica,
            (slice) =>
              addressRefusal(slice, endpoint.address) ??
              sealRefusal(slice, endpoint, options.fingerprint?.()) ??
              readyBody(slice, endpoint),
          ),
        );
        if (outcome.at === "missing") return { ok: false, message: "the EndpointSlice does not exist yet" };
        return resultOf(outcome, endpoint);
      }),
    withdraw: (replica) =>
      intents.take(keyOf(replica), async (turn) => {
        if (!mayWrite()) return notOurs();
        const outcome = await persist(turn, () => writer.write(replica, withdrawnBody));
        return resultOf(outcome, undefined);
      }),
  };
}

function resultOf(outcome: WriteAttempt, desired: EndpointAddress | undefined): EndpointResult {
  switch (outcome.at) {
    case "written":
      return { ok: true, state: stateOfSlice(outcome.slice, desired) };
    case "missing":
      return { ok: true, state: "missing" };
    case "refused":
      return { ok: false, message: outcome.why };
    case "failed":
      return { ok: false, message: outcome.failure.message };
    default:
      return outcome satisfies never;
  }
}

function notOurs(): EndpointResult {
  return { ok: false, message: "another agent holds this host's name" };
}

/** A rejected write is final; every other failure is retried. */
function isRetryable({ kind }: ApiFailure): boolean {
  return kind !== "invalid" && kind !== "forbidden" && kind !== "notFound";
}

interface Turn {
  /** True once there is a newer intent for the key. */
  readonly isSuperseded: () => boolean;
}

interface Intents {
  /** Runs when the earlier work for the key has finished. */
  readonly take: <T>(key: string, work: (turn: Turn) => Promise<T>) => Promise<T>;
}

/** Serializes the writes of each key. The newest intent wins: an old announcement must never be written after a withdrawal. */
function createIntents(): Intents {
  const tails = new Map<string, Promise<unknown>>();
  const newest = new Map<string, symbol>();
  return {
    take: (key, work) => {
      const mark = Symbol(key);
      newest.set(key, mark);
      const before = tails.get(key) ?? Promise.resolve();
      const run = before.then(() => work({ isSuperseded: () => newest.get(key) !== mark }));
      const tail: Promise<unknown> = run
        .catch(() => undefined)
        .then(() => {
          if (tails.get(key) !== tail) return;
          tails.delete(key);
          newest.delete(key);
        });
      tails.set(key, tail);
      return run;
    },
  };
}

/** Announces the endpoint: it receives new connections. */
export function readyBody(slice: EndpointSlice, { address, port }: EndpointAddress): EndpointSlice {
  return {
    ...identityOf(slice),
    endpoints: [{ addresses: [address], conditions: { ready: true, serving: true, terminating: false } }],
    ports: [{ name: PORT_NAME, port, protocol: "TCP" }],
  };
}

/** Withdraws the endpoint. With serving true, kube-proxy would still send new connections if no other endpoint is ready. */
function withdrawnBody(slice: EndpointSlice): EndpointSlice {
  const conditions = { ready: false, serving: false, terminating: true };
  return {
    ...identityOf(slice),
    endpoints: (slice.endpoints ?? []).map(({ addresses }) => ({ addresses, conditions })),
    ports: slice.ports ?? [],
  };
}

function stateOfSlice(slice: EndpointSlice, desired: EndpointAddress | undefined): SliceState {
  const endpoint = slice.endpoints?.[0];
  if (endpoint === undefined) return "unwritten";
  // Every reader of slices treats an absent value as ready.
  if (endpoint.conditions?.ready === false) return "withdrawn";
  const isAsDesired =
    desired !== undefined &&
    slice.endpoints?.length === 1 &&
    endpoint.addresses.length === 1 &&
    endpoint.addresses[0] === desired.address &&
    slice.ports?.length === 1 &&
    slice.ports[0]?.port === desired.port &&
    slice.ports[0]?.name === PORT_NAME;
  return isAsDesired ? "ready" : "stale";
}

/** Why the slice must not hold the address; undefined if it may. */
function addressRefusal(slice: EndpointSlice, address: string): string | undefined {
  const why = addressProblem(address);
  if (why !== undefined) return `${address} is ${why}, which an EndpointSlice does not allow`;
  const family = address.includes(":") ? "IPv6" : "IPv4";
  if (slice.addressType !== family)
    return `${address} is ${family}, the EndpointSlice is for ${slice.addressType}`;
  const allowed = slice.metadata.annotations?.[ANNOTATION_ADDRESSES];
  if (allowed === undefined) return undefined;
  return isAddressWithin(address, allowed.split(","))
    ? undefined
    : `${address} is not among the addresses that the Host allows (${allowed === "" ? "none" : allowed})`;
}

/** A gateway would send requests in plain text, or to a host that it does not recognize. */
function sealRefusal(
  slice: EndpointSlice,
  { isSealed }: Announcement,
  fingerprint: string | undefined,
): string | undefined {
  if (isSealed !== true || (fingerprint !== undefined && fingerprintsOf(slice)?.includes(fingerprint)))
    return undefined;
  return "the EndpointSlice does not have the certificate of this host yet, which the controller copies from the status of the Host";
}

/** Undefined if the replica is not sealed. */
function fingerprintsOf({ metadata }: EndpointSlice): readonly string[] | undefined {
  return metadata.annotations?.[ANNOTATION_FINGERPRINTS]?.split(",");
}

function identityOf(slice: EndpointSlice): Pick<EndpointSlice, "metadata" | "addressType"> {
  const { name, namespace, uid } = slice.metadata;
  return {
    metadata: { name, namespace, uid },
    addressType: slice.addressType,
  };
}

type WriteAttempt =
  | { readonly at: "written"; readonly slice: EndpointSlice }
  | { readonly at: "missing" }
  | { readonly at: "refused"; readonly why: string }
  | { readonly at: "failed"; readonly failure: ApiFailure };

interface SliceWriter {
  /**
   * Makes one attempt, on the newest known version, whose uid prevents that a deleted slice is created again. `bodyFor` returns a
   * string to refuse the write.
   */
  readonly write: (
    replica: ObjectRef,
    bodyFor: (slice: EndpointSlice) => EndpointSlice | string,
  ) => Promise<WriteAttempt>;
}

export function createSliceWriter(client: KubeClient, slices: NewestSlices): SliceWriter {
  /** Keys whose last write failed: the known version may be out of date, so the next attempt reads the slice. */
  const doubtful = new Set<string>();

  const current = async (replica: ObjectRef, key: string): Promise<ApiResult<EndpointSlice>> => {
    const known = doubtful.has(key) ? undefined : slices.get(key);
    if (known !== undefined) return { ok: true, value: known };
    const read = await client.get(ENDPOINT_SLICES, replica);
    if (read.ok) {
      slices.seen(key, read.value);
      doubtful.delete(key);
    }
    return read;
  };
  return {
    write: async (replica, bodyFor) => {
      const key = keyOf(replica);
      const failed = (failure: ApiFailure): WriteAttempt => {
        doubtful.add(key);
        if (failure.kind !== "notFound") return { at: "failed", failure };
        slices.seen(key, undefined);
        doubtful.delete(key);
        return { at: "missing" };
      };
      const found = await current(replica, key);
      if (!found.ok) return failed(found.error);
      const body = bodyFor(found.value);
      if (typeof body === "string") return { at: "refused", why: body };
      const applied = await client.apply(ENDPOINT_SLICES, body, {
        manager: MANAGER_AGENT,
        current: found.value,
      });
      if (!applied.ok) return failed(applied.error);
      slices.seen(key, applied.value.object);
      return { at: "written", slice: applied.value.object };
    },
  };
}
