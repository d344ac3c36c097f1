/** Follows one service until it serves, printing each change of its Model, its replicas and itself. */

import { type Condition, getCondition } from "../../src/api/conditions.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { LABEL_SERVICE, LABEL_SERVICE_NAME } from "../../src/api/group.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import type { Model } from "../../src/api/model.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { ENDPOINT_SLICES } from "../../src/kube/kinds.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import { silentLog } from "../terminal-log.ts";
import type { Screen } from "./screen.ts";

export interface Followed {
  /** `http://address:port`, as the EndpointSlice holds it. */
  readonly endpoint: string;
}

interface FollowOptions {
  readonly connection: KubeConnection;
  readonly namespace: string;
  readonly name: string;
  readonly screen: Screen;
  /** Monotonic. */
  readonly startedAtMs: number;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** A failure that an earlier run left behind gets this long to be replaced by what controller and agent find now. */
const OLD_FAILURE_MS = 20_000;

/** Resolves when the service is Ready and its slice holds a ready endpoint; rejects with what failed, or is missing after `timeoutMs`. */
export function followUntilReady(options: FollowOptions): Promise<Followed> {
  // An abort that has already happened fires no event.
  if (options.signal.aborted) return Promise.reject(options.signal.reason);
  return new Promise((resolve, reject) => new Following(options, resolve, reject).start());
}

interface Reported {
  readonly phase: string | undefined;
  readonly message: string | undefined;
  /** When the phase or its reason last changed. */
  readonly changedAt: string | undefined;
}

class Following {
  readonly #options: FollowOptions;
  readonly #end = new AbortController();
  readonly #reported = new Map<string, Reported>();
  readonly #startedWallMs: number;
  readonly #resolve: (followed: Followed) => void;
  readonly #reject: (error: unknown) => void;
  #endpoint: () => string | undefined = () => undefined;

  constructor(
    options: FollowOptions,
    resolve: (followed: Followed) => void,
    reject: (error: unknown) => void,
  ) {
    this.#options = options;
    this.#startedWallMs = systemClock.nowMs() - (systemClock.monotonicMs() - options.startedAtMs);
    this.#resolve = resolve;
    this.#reject = reject;
  }

  start(): void {
    const { connection, namespace, name, signal: outer, timeoutMs, screen } = this.#options;
    const signal = AbortSignal.any([outer, this.#end.signal]);
    outer.addEventListener("abort", () => this.#finish(() => this.#reject(outer.reason)), {
      signal: this.#end.signal,
    });
    this.#after(timeoutMs, () => this.#fail("not ready in time", [...this.#reported]));
    const watched = { connection, namespace, clock: systemClock, log: silentLog, signal };
    const slices = startReflector<EndpointSlice>({
      ...watched,
      kind: ENDPOINT_SLICES,
      labelSelector: `${LABEL_SERVICE_NAME}=${name}`,
      onChange: () => this.#settleWhenReady(),
    });
    this.#endpoint = () =>
      slices
        .list()
        .map(readyEndpoint)
        .find((found) => found !== undefined);
    const fieldSelector = `metadata.name=${name}`;
    startReflector<Model>({
      ...watched,
      kind: MODELS,
      fieldSelector,
      onChange: (_key, model) => this.#report(`Model/${name}`, reportedBy(model?.status)),
    });
    startReflector<InferenceReplica>({
      ...watched,
      kind: INFERENCE_REPLICAS,
      labelSelector: `${LABEL_SERVICE}=${name}`,
      onChange: (key, replica) => {
        const who = `InferenceReplica/${key.split("/").at(-1)}`;
        const { progress, phase, message, transitions } = replica?.status ?? {};
        // Stopped is what an earlier run left behind: the agent of this one has not adopted it yet.
        if (replica === undefined || phase === "Stopped") return void this.#reported.delete(who);
        if (progress?.totalBytes !== undefined)
          screen.fetching({ bytes: progress.bytes, totalBytes: progress.totalBytes });
        this.#report(who, { phase, message, changedAt: transitions?.at(-1)?.at });
      },
    });
    startReflector<InferenceService>({
      ...watched,
      kind: INFERENCE_SERVICES,
      fieldSelector,
      onChange: (_key, service) => this.#report(`InferenceService/${name}`, reportedBy(service?.status)),
    });
  }

  #report(who: string, now: Reported): void {
    const before = this.#reported.get(who);
    if (now.phase === undefined || (before?.phase === now.phase && before.message === now.message)) return;
    this.#reported.set(who, now);
    const elapsed = `${((performance.now() - this.#options.startedAtMs) / 1_000).toFixed(2)} s`;
    const why = now.phase === "Ready" || now.message === undefined ? "" : `  ${now.message}`;
    this.#options.screen.line(`    ${elapsed.padStart(8)}  ${who.padEnd(36)} ${now.phase}${why}`);
    if (now.phase === "Failed") this.#whenItStaysFailed(who, now);
    this.#settleWhenReady();
  }

  #whenItStaysFailed(who: string, now: Reported): void {
    const isOfThisRun = Date.parse(now.changedAt ?? "") >= Math.floor(this.#startedWallMs / 1_000) * 1_000;
    this.#after(isOfThisRun ? 0 : OLD_FAILURE_MS, () => {
      if (this.#reported.get(who) === now) this.#fail("it cannot become ready", [[who, now]]);
    });
  }

  #settleWhenReady(): void {
    if (this.#reported.get(`InferenceService/${this.#options.name}`)?.phase !== "Ready") return;
    const endpoint = this.#endpoint();
    if (endpoint !== undefined) this.#finish(() => this.#resolve({ endpoint }));
  }

  #fail(what: string, because: readonly (readonly [string, Reported])[]): void {
    const obstacles = because.map(
      ([who, { phase, message }]) => `${who} is ${phase}${message === undefined ? "" : `: ${message}`}`,
    );
    const why = obstacles.length === 0 ? "nothing has been reported yet" : obstacles.join("; ");
    this.#finish(() => this.#reject(new MetalbridgeError("DemoNotReady", `${what}; ${why}`)));
  }

  #after(delayMs: number, fire: () => void): void {
    const cancel = systemClock.after(delayMs, fire);
    this.#end.signal.addEventListener("abort", cancel, { once: true });
  }

  #finish(settle: () => void): void {
    if (this.#end.signal.aborted) return;
    this.#end.abort();
    this.#options.screen.fetching(undefined);
    settle();
  }
}

function reportedBy(
  status:
    | {
        readonly phase?: string | undefined;
        readonly message?: string | undefined;
        readonly conditions?: readonly Condition[] | undefined;
      }
    | undefined,
): Reported {
  const changedAt = (
    getCondition(status?.conditions, "Ready") ?? getCondition(status?.conditions, "Available")
  )?.lastTransitionTime;
  return { phase: status?.phase, message: status?.message, changedAt };
}

function readyEndpoint(slice: EndpointSlice): string | undefined {
  const address = slice.endpoints?.find((endpoint) => endpoint.conditions?.ready === true)?.addresses[0];
  const port = slice.ports?.[0]?.port;
  if (address === undefined || port === undefined || port === null) return undefined;
  return `http://${address.includes(":") ? `[${address}]` : address}:${port}`;
}
