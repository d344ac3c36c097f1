/** Follows a service until it is ready, and prints each change of the service, its Model and its replicas. */
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
import { hostInUrl } from "../../src/util/host-in-url.ts";
import { silentLog } from "../terminal-log.ts";
import { type AppliedObjects, type DemoFinding, type DemoObservation, findingsOf } from "./judge.ts";
import type { DemoScreen } from "./screen.ts";

export interface ReadyService {
  /** `http://address:port` from the EndpointSlice. Absent while the service is idle: the next request loads its model. */
  readonly endpoint?: string;
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

/** A failure from before this run is reported only after this time, because until then it may be retried. */
const OLD_FAILURE_MS = 20_000;

/** Phases during startup, which are printed only if they last. */
const TRANSIENT_PHASES: ReadonlySet<string> = new Set(["Pending", "WaitingForCapacity", "Degraded"]);
const TRANSIENT_MS = 5_000;

/** Resolves when the service is Ready with a ready endpoint, or Idle; rejects with a failure, or with the findings after `timeoutMs`. */
export function followUntilReady(options: FollowOptions): Promise<ReadyService> {
  // A signal that is already aborted fires no event.
  if (options.signal.aborted) return Promise.reject(options.signal.reason);
  return new Promise((resolve, reject) => new ServiceFollower(options, resolve, reject).start());
}

class ServiceFollower {
  readonly #options: FollowOptions;
  readonly #end = new AbortController();
  readonly #printed = new Map<string, DemoFinding>();
  readonly #startedWallMs: number;
  readonly #resolve: (followed: ReadyService) => void;
  readonly #reject: (error: unknown) => void;
  #observed: () => DemoObservation = () => ({ model: undefined, service: undefined, replicas: [] });
  #endpoint: () => string | undefined = () => undefined;
  #areOldFailuresReported = false;
  /** Current transient phase of the service, which is not printed yet. */
  #transient: { readonly phase: string; readonly sinceMs: number } | undefined;

  constructor(
    options: FollowOptions,
    resolve: (followed: ReadyService) => void,
    reject: (error: unknown) => void,
  ) {
    this.#options = options;
    const startedWallMs = systemClock.nowMs() - (systemClock.monotonicMs() - options.startedAtMs);
    // API timestamps have a resolution of one second.
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
      this.#after(timeoutMs, () => this.#fail("not ready in time", [...this.#printed.values()]));
    this.#after(OLD_FAILURE_MS, () => {
      this.#areOldFailuresReported = true;
      this.#check();
    });
    this.#watch(AbortSignal.any([outer, this.#end.signal]));
  }

  #watch(signal: AbortSignal): void {
    const { connection, applied, screen } = this.#options;
    const { name, namespace = "default" } = applied.service.metadata;
    const onChange = () => this.#check();
    const watched = {
      connection,
      namespace,
      clock: systemClock,
      log: silentLog,
      signal,
      onChange,
      fieldSelector: `metadata.name=${name}`,
    };
    const { fieldSelector: _, ...byLabel } = watched;
    const slices = startReflector<EndpointSlice>({
      ...byLabel,
      kind: ENDPOINT_SLICES,
      labelSelector: `${LABEL_SERVICE_NAME}=${name}`,
    });
    const models = startReflector<Model>({ ...watched, kind: MODELS });
    const services = startReflector<InferenceService>({ ...watched, kind: INFERENCE_SERVICES });
    const replicas = startReflector<InferenceReplica>({
      ...byLabel,
      kind: INFERENCE_REPLICAS,
      labelSelector: `${LABEL_SERVICE}=${name}`,
      onChange: (_key, replica) => {
        const { bytes, totalBytes } = replica?.status?.progress ?? {};
        if (bytes !== undefined && totalBytes !== undefined) screen.fetching({ bytes, totalBytes });
        this.#check();
      },
    });
    this.#endpoint = () =>
      slices
        .list()
        .map(readyEndpoint)
        .find((found) => found !== undefined);
    this.#observed = () => ({
      model: models.list()[0],
      service: services.list()[0],
      replicas: replicas.list(),
    });
  }

  /** Prints changes, and finishes when the service is Ready or has failed. */
  #check(): void {
    if (this.#end.signal.aborted) return;
    const findings = findingsOf(this.#observed(), this.#options.applied).filter(
      (one) => one.phase !== "Failed" || this.#areOldFailuresReported || this.#isOfThisRun(one),
    );
    for (const who of this.#printed.keys())
      if (!findings.some((one) => one.who === who)) this.#printed.delete(who);
    for (const one of findings) this.#print(one);
    const failed = findings.find(({ phase }) => phase === "Failed");
    if (failed !== undefined) {
      this.#fail("it cannot become ready", [failed]);
      return;
    }
    const isIn = (state: string, kind: string) =>
      findings.some(({ who, phase }) => who.startsWith(`${kind}/`) && phase === state);
    const isReady = (kind: string) => isIn("Ready", kind);
    if (isIn("Idle", "InferenceService")) {
      this.#finish(() => this.#resolve({}));
      return;
    }
    const endpoint = this.#endpoint();
    if (isReady("InferenceService") && isReady("InferenceReplica") && endpoint !== undefined)
      this.#finish(() => this.#resolve({ endpoint }));
  }

  #isOfThisRun({ changedAt }: DemoFinding): boolean {
    return Date.parse(changedAt ?? "") >= this.#startedWallMs;
  }

  #print(now: DemoFinding): void {
    const { who, phase } = now;
    const message = messageOf(now);
    const before = this.#printed.get(who);
    if (before?.phase === phase && before.message === message) return;
    if (TRANSIENT_PHASES.has(phase) && isService(now) && !this.#hasLasted(now)) return;
    this.#printed.set(who, { ...now, message });
    const elapsed = `${((performance.now() - this.#options.startedAtMs) / 1_000).toFixed(2)} s`;
    const why = message === undefined ? "" : `  ${message}`;
    this.#options.screen.line(`    ${elapsed.padStart(8)}  ${who.padEnd(36)} ${phase}${why}`);
  }

  /** True if the phase has lasted long enough to be printed. Schedules another check. */
  #hasLasted({ phase }: DemoFinding): boolean {
    const now = performance.now();
    if (this.#transient?.phase !== phase) {
      this.#transient = { phase, sinceMs: now };
      this.#after(TRANSIENT_MS, () => this.#check());
    }
    return now - this.#transient.sinceMs >= TRANSIENT_MS;
  }

  #fail(summary: string, findings: readonly DemoFinding[]): void {
    const obstacles = findings.map(
      ({ who, phase, message }) => `${who} is ${phase}${message === undefined ? "" : `: ${message}`}`,
    );
    const why = obstacles.length === 0 ? "nothing has been reported yet" : obstacles.join("; ");
    this.#finish(() => this.#reject(new MetalbridgeError("DemoNotReady", `${summary}; ${why}`)));
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

/** Undefined if the message repeats the messages of the replicas, which have separate lines. */
function messageOf(finding: DemoFinding): string | undefined {
  const { phase, message } = finding;
  const isRepeated = isService(finding) && (phase === "Creating" || phase === "Progressing");
  return phase === "Ready" || isRepeated ? undefined : message;
}

function readyEndpoint(slice: EndpointSlice): string | undefined {
  const address = slice.endpoints?.find((endpoint) => endpoint.conditions?.ready === true)?.addresses[0];
  const port = slice.ports?.[0]?.port;
  if (address === undefined || port === undefined || port === null) return undefined;
  return `http://${hostInUrl(address)}:${port}`;
}
