import { describe, expect, test } from "vitest";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import { testGoldens } from "../../../test/golden/golden.ts";
import type { ReportedEvent } from "../../frame/watches/events.ts";
import type { LivenessVerdict } from "./liveness.ts";
import { type HostObserved, type HostStep, hasServingEndpoint, planHost } from "./plan.ts";

const NOW = "2026-01-01T00:00:00Z";

interface ShortInput {
  readonly verdict: LivenessVerdict;
  /** What Reachable says now; `bare` for a Host without a status, `deleted` for one that is gone. */
  readonly host: "True" | "False" | "Unknown" | "new" | "bare" | "deleted";
  /** `<name> <HostReachable, or new> <hostLostSeconds> [leaving] [free]`; each drains for 30 s. */
  readonly replicas?: readonly string[];
  /** For how many seconds each replica has been leaving. */
  readonly leaving?: Readonly<Record<string, number>>;
  /** `<name> serving|withdrawn|empty` */
  readonly slices?: readonly string[];
  /** When it came or went, as kept in its status. */
  readonly changes?: readonly string[];
  readonly isDeclarationRefuted?: boolean;
  readonly drain?: boolean;
  /** Conditions of the Host besides Reachable: `<type> <status> <reason>` */
  readonly also?: readonly string[];
  /** Why replicas stay, by name. */
  readonly stays?: Readonly<Record<string, string>>;
}

function condition(type: string, status: string, reason = "Before"): object {
  return { type, status, reason, message: "", lastTransitionTime: "2025-01-01T00:00:00Z" };
}

function host({ host: word, drain = false, also = [], changes }: ShortInput): Host | undefined {
  if (word === "deleted") return undefined;
  if (word === "bare") return { metadata: { name: "mac-1" }, spec: { drain } } as unknown as Host;
  const others = also.map((one) => condition(...(one.split(" ") as [string, string, string])));
  const conditions = [...(word === "new" ? [] : [condition("Reachable", word)]), ...others];
  const status = { conditions, reachableChanges: changes };
  return { metadata: { name: "mac-1" }, spec: { drain }, status } as unknown as Host;
}

function replica(words: string): InferenceReplica {
  const [name = "", reachable = "", seconds = "", ...marks] = words.split(" ");
  return {
    metadata: {
      name,
      namespace: "default",
      uid: name,
      finalizers: marks.includes("free") ? [] : ["metalbridge.dev/engine"],
      deletionTimestamp: marks.includes("leaving") ? NOW : undefined,
    },
    spec: { hostLostSeconds: Number(seconds), drainSeconds: 30 },
    status: { conditions: reachable === "new" ? [] : [condition("HostReachable", reachable)] },
  } as unknown as InferenceReplica;
}

function slice(words: string): EndpointSlice {
  const [name = "", state = ""] = words.split(" ");
  const on = { ready: true, serving: true, terminating: false };
  const off = { ready: false, serving: false, terminating: true };
  const conditions = state === "serving" ? on : off;
  const endpoints = state === "empty" ? null : [{ addresses: ["192.168.7.1"], conditions }];
  return { metadata: { name }, addressType: "IPv4", endpoints };
}

function tell(step: HostStep): string[] {
  if (step.do === "withdrawSlice") return [`withdraw ${step.slice.metadata.name}: ${step.because}`];
  if (step.do === "forceDeleteReplica")
    return [`force-delete ${step.replica.metadata.name}: ${step.because}`];
  if (step.do === "finishDeletion")
    return [`finish the deletion of ${step.replica.metadata.name}: ${step.because}`];
  if (step.do === "clearDeclaration")
    return ["clear the declaration", ...tellEvents(step.event ? [step.event] : [])];
  const isHost = step.do === "setHostConditions";
  const name = isHost ? step.host.metadata.name : step.replica.metadata.name;
  const said = step.conditions.map(
    ({ type, status, reason, lastTransitionTime }) =>
      `${type}=${status} (${reason}${lastTransitionTime === NOW ? "" : ", as before"})`,
  );
  const drained = step.conditions.find(({ type }) => type === "Drained");
  return [
    `${name}: ${said.join(", ")}`,
    ...(isHost && step.reachableChanges.length > 0 ? [`changes: ${step.reachableChanges.join(", ")}`] : []),
    ...(drained === undefined ? [] : [drained.message]),
    ...tellEvents(isHost ? step.events : []),
  ];
}

function tellEvents(events: readonly ReportedEvent[]): string[] {
  return events.map(({ type, reason }) => `event ${type} ${reason}`);
}

const observe = (short: ShortInput): HostObserved => ({
  name: "mac-1",
  host: host(short),
  verdict: short.verdict,
  isDeclarationRefuted: short.isDeclarationRefuted ?? false,
  blockerOf: (replica) => short.stays?.[replica.replace("default/", "")],
  replicas: (short.replicas ?? []).map(replica),
  leavingMs: new Map(Object.entries(short.leaving ?? {}).map(([name, s]) => [name, s * 1000])),
  slices: (short.slices ?? []).map(slice),
});

/** What the Host and its replicas say once the steps are done. */
function written(observed: HostObserved, steps: readonly HostStep[] = planHost(observed, NOW).steps) {
  const done = <T extends { readonly status?: object | undefined }>(object: T): T => {
    const step = steps.find(
      (one) =>
        (one.do === "setHostConditions" && one.host === (object as unknown)) ||
        (one.do === "setReplicaReachable" && one.replica === (object as unknown)),
    );
    if (step === undefined || !("conditions" in step)) return object;
    const { conditions } = step;
    const changes = "reachableChanges" in step ? { reachableChanges: step.reachableChanges } : {};
    return { ...object, status: { ...object.status, conditions, ...changes } };
  };
  return { ...observed, host: observed.host && done(observed.host), replicas: observed.replicas.map(done) };
}

const conditionsIn = (steps: readonly HostStep[]) => steps.filter((step) => "conditions" in step);

describe("golden", () => {
  testGoldens(`${import.meta.dirname}/golden`, (short: ShortInput) => {
    const observed = observe(short);
    const { steps, needsProof } = planHost(observed, NOW);
    // What is written is not written again.
    expect(conditionsIn(planHost(written(observed, steps), "2026-01-01T00:00:01Z").steps)).toEqual([]);
    return { needsProof, steps: steps.flatMap(tell) };
  });
});

test("only steps that follow from silence need a live read of the Lease", () => {
  const short = { host: "True", verdict: { at: "unreachable", silentMs: 50_000 } } as const;
  const silent = written(observe(short));
  const proofOf = (more: Partial<HostObserved>) => {
    const { steps, needsProof } = planHost({ ...silent, ...more }, NOW);
    return [steps.map((step) => step.do), needsProof];
  };
  expect(proofOf({})).toEqual([[], false]);
  const drained = silent.host && { ...silent.host, spec: { ...silent.host.spec, drain: true } };
  expect(proofOf({ host: drained })).toEqual([["setHostConditions"], false]);
  expect(proofOf({ isDeclarationRefuted: true })).toEqual([["clearDeclaration"], false]);
  const behind = { replicas: [replica("a True 300")] };
  expect(proofOf(behind)).toEqual([["setReplicaReachable"], true]);
  const both = { ...behind, isDeclarationRefuted: true };
  expect(proofOf(both)).toEqual([["clearDeclaration", "setReplicaReachable"], true]);
});

test("an endpoint without conditions is served by kube-proxy", () => {
  expect(
    hasServingEndpoint({
      metadata: { name: "a" },
      addressType: "IPv4",
      endpoints: [{ addresses: ["10.0.0.1"] }],
    }),
  ).toBe(true);
});

test.each([
  [{ ready: true, serving: true, terminating: false }, true],
  [{ ready: false, serving: true, terminating: true }, true],
  [{ ready: false, serving: false, terminating: false }, true],
  [{ ready: true, serving: false, terminating: true }, true],
  [{ ready: false, serving: false, terminating: true }, false],
])(
  "only an endpoint that is not ready, not serving and terminating is withdrawn: %j",
  (conditions, expected) => {
    const endpoints = [{ addresses: ["10.0.0.1"], conditions }];
    expect(hasServingEndpoint({ metadata: { name: "a" }, addressType: "IPv4", endpoints })).toBe(expected);
  },
);
