/** Follows one service until it serves, printing each change of its Model, its replicas and itself. */
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
import { type AppliedObjects, type DemoFinding, type DemoObservation, findingsOf } from "./judge.ts";
import type { DemoScreen } from "./screen.ts";

export interface ReadyService {
  /** `http://address:port`, as the EndpointSlice holds it. */
  readonly endpoint: string;
}

interface FollowOptions {
  readonly connection: KubeConnection;
  readonly applied: AppliedObjects;
  readonly screen: DemoScreen;
  /** Monotonic. */
  readonly startedAtMs: number;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** A failure from before this run that still holds for what it asked for is reported after this time: by then it was retried. */
const OLD_FAILURE_MS = 20_000;

/** A service passes through these while everything starts. Shown only when one of them lasts. */
const PASSING_PHASES: ReadonlySet<string> = new Set(["Pending", "WaitingForCapacity", "Degraded"]);
const PASSING_MS = 5_000;

/** Resolves when the service is Ready and its slice holds a ready endpoint; rejects with what failed, or is missing after `timeoutMs`. */
export function followUntilReady(options: FollowOptions): Promise<ReadyService> {
  // An abort that has already happened fires no event.
  if (options.signal.aborted) return Promise.reject(options.signal.reason);
  return new Promise((resolve, reject) => new Following(options, resolve, reject).start());
}

class Following {
  readonly #options: FollowOptions;
  readonly #end = new AbortController();
  readonly #shown = new Map<string, DemoFinding>();
  readonly #startedWallMs: number;
  readonly #resolve: (followed: ReadyService) => void;
  readonly #reject: (error: unknown) => void;
  #seen: () => DemoObservation = () => ({ model: undefined, service: undefined, replicas: [] });
  #endpoint: () => string | undefined = () => undefined;
  #areOldFailuresReported = false;
  /** The phase of the service that is not shown yet. */
  #passing: { readonly phase: string; readonly sinceMs: number } | undefined;

  constructor(
    options: FollowOptions,
    resolve: (followed: ReadyService) => void,
    reject: (error: unknown) => void,
  ) {
    this.#options = options;
    const startedWallMs = systemClock.nowMs() - (systemClock.monotonicMs() - options.startedAtMs);
    // Timestamps of the API have whole seconds.
    this.#startedWallMs = Math.floor(startedWallMs / 1_000) * 1_000;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  start(): void {
    const { signal: outer, timeoutMs } = this.#options;
    outer.addEventListener("abort", () => this.#finish(() => this.#reject(outer.reason)), {
      signal: this.#end.signal,
    });
    if (timeoutMs < Number.POSITIVE_INFINITY)
      this.#after(timeoutMs, () => this.#fail("not ready in time", [...this.#shown.values()]));
    this.#after(OLD_FAILURE_MS, () => {
      this.#areOldFailuresReported = true;
      this.#look();
    });
    this.#watch(AbortSignal.any([outer, this.#end.signal]));
  }

  #watch(signal: AbortSignal): void {
    const { connection, applied, screen } = this.#options;
    const { name, namespace = "default" } = applied.service.metadata;
    const onChange = () => this.#look();
    const watched = {
      connection,
      namespace,
      clock: systemClock,
      log: silentLog,
      signal,
      onChange,
      fieldSelector: `metadata.name=${name}`,
    };
    const { fieldSelector: _, ...labeled } = watched;
    const slices = startReflector<EndpointSlice>({
      ...labeled,
      kind: ENDPOINT_SLICES,
      labelSelector: `${LABEL_SERVICE_NAME}=${name}`,
    });
    const models = startReflector<Model>({ ...watched, kind: MODELS });
    const services = startReflector<InferenceService>({ ...watched, kind: INFERENCE_SERVICES });
    const replicas = startReflector<InferenceReplica>({
      ...labeled,
      kind: INFERENCE_REPLICAS,
      labelSelector: `${LABEL_SERVICE}=${name}`,
      onChange: (_key, replica) => {
        const { bytes, totalBytes } = replica?.status?.progress ?? {};
        if (bytes !== undefined && totalBytes !== undefined) screen.fetching({ bytes, totalBytes });
        this.#look();
      },
    });
    this.#endpoint = () =>
      slices
        .list()
        .map(readyEndpoint)
        .find((found) => found !== undefined);
    this.#seen = () => ({ model: models.list()[0], service: services.list()[0], replicas: replicas.list() });
  }

  /** Prints what has changed, and ends when it is Ready or has failed. */
  #look(): void {
    if (this.#end.signal.aborted) return;
    const findings = findingsOf(this.#seen(), this.#options.applied).filter(
      (one) => one.phase !== "Failed" || this.#areOldFailuresReported || this.#isOfThisRun(one),
    );
    for (const who of this.#shown.keys())
      if (!findings.some((one) => one.who === who)) this.#shown.delete(who);
    for (const one of findings) this.#show(one);
    const failed = findings.find(({ phase }) => phase === "Failed");
    if (failed !== undefined) {
      this.#fail("it cannot become ready", [failed]);
      return;
    }
    const isReady = (kind: string) =>
      findings.some(({ who, phase }) => who.startsWith(`${kind}/`) && phase === "Ready");
    const endpoint = this.#endpoint();
    if (isReady("InferenceService") && isReady("InferenceReplica") && endpoint !== undefined)
      this.#finish(() => this.#resolve({ endpoint }));
  }

  #isOfThisRun({ changedAt }: DemoFinding): boolean {
    return Date.parse(changedAt ?? "") >= this.#startedWallMs;
  }

  #show(now: DemoFinding): void {
    const { who, phase } = now;
    const message = messageOf(now);
    const before = this.#shown.get(who);
    if (before?.phase === phase && before.message === message) return;
    if (PASSING_PHASES.has(phase) && isService(now) && !this.#hasLasted(now)) return;
    this.#shown.set(who, { ...now, message });
    const elapsed = `${((performance.now() - this.#options.startedAtMs) / 1_000).toFixed(2)} s`;
    const why = message === undefined ? "" : `  ${message}`;
    this.#options.screen.line(`    ${elapsed.padStart(8)}  ${who.padEnd(36)} ${phase}${why}`);
  }

  /** Looks again when it might have. */
  #hasLasted({ phase }: DemoFinding): boolean {
    const now = performance.now();
    if (this.#passing?.phase !== phase) {
      this.#passing = { phase, sinceMs: now };
      this.#after(PASSING_MS, () => this.#look());
    }
    return now - this.#passing.sinceMs >= PASSING_MS;
  }

  #fail(what: string, because: readonly DemoFinding[]): void {
    const obstacles = because.map(
      ({ who, phase, message }) => `${who} is ${phase}${message === undefined ? "" : `: ${message}`}`,
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

function isService({ who }: DemoFinding): boolean {
  return who.startsWith("InferenceService/");
}

/** What a starting service says is what its replicas say, each on a line of its own. */
function messageOf(finding: DemoFinding): string | undefined {
  const { phase, message } = finding;
  const isSaidAlready = isService(finding) && (phase === "Creating" || phase === "Progressing");
  return phase === "Ready" || isSaidAlready ? undefined : message;
}

function readyEndpoint(slice: EndpointSlice): string | undefined {
  const address = slice.endpoints?.find((endpoint) => endpoint.conditions?.ready === true)?.addresses[0];
  const port = slice.ports?.[0]?.port;
  if (address === undefined || port === undefined || port === null) return undefined;
  return `http://${address.includes(":") ? `[${address}]` : address}:${port}`;
}
