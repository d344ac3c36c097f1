import { expect, test } from "vitest";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { KubeObject } from "../../src/kube/types.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { testGoldens } from "../../test/golden/golden.ts";
import { NO_OWNED_OBJECTS, type OwnedObjects } from "../frame/owned/observe.ts";
import type { PathStep } from "../frame/owned/steps.ts";
import type { HostsPathPorts } from "../hosts/ports.ts";
import { createPaths } from "../lead/service-paths.ts";
import type { PodsPorts } from "../pods/ports.ts";
import { needsNoOtherPath, type PassStep, planServicePass } from "./plan.ts";

/** Words after a name are its state. */
interface ShortInput {
  readonly on: "Hosts" | "Pods" | "Groups" | "Auto";
  readonly replicas?: readonly string[];
  readonly pods?: readonly string[];
  readonly slices?: readonly string[];
  readonly relaySlices?: readonly string[];
  readonly deployments?: readonly string[];
  readonly groups?: readonly string[];
  readonly routes?: readonly string[];
}

// What a plan asks of paths needs none of their ports.
const paths = createPaths({} as HostsPathPorts, { hostsOnly: false } as PodsPorts);
const [hosts, pods, groups, both] = paths;
const CHOSEN = { Hosts: hosts, Pods: pods, Groups: groups, Auto: both };

const named = (text: string) => {
  const [name = "", ...words] = text.split(" ");
  const deletionTimestamp = words.includes("leaving") ? "2026-01-01T00:00:00Z" : undefined;
  return { metadata: { name, namespace: "default", uid: name, deletionTimestamp } };
};
const all = (texts: readonly string[] = []) => texts.map(named);

function replica(text: string): InferenceReplica {
  const phase = text.includes("ready") ? "Ready" : "Starting";
  const conditions = phase === "Ready" ? [{ type: "Ready", status: "True" }] : [];
  return { ...named(text), spec: { template: {} }, status: { phase, conditions } } as never;
}

function pod(text: string): Pod {
  const schedulingGates = text.includes("gated") ? [{ name: "metalbridge.dev/placement" }] : [];
  const conditions = text.includes("ready") ? [{ type: "Ready", status: "True" }] : [];
  return { ...named(text), spec: { containers: [], schedulingGates }, status: { conditions } } as never;
}

function ownOf({ replicas = [], pods: given = [], ...rest }: ShortInput): OwnedObjects {
  return {
    ...NO_OWNED_OBJECTS,
    replicas: replicas.map(replica),
    pods: given.map(pod),
    slices: all(rest.slices) as never,
    relaySlices: all(rest.relaySlices) as never,
    deployments: all(rest.deployments) as never,
    groups: all(rest.groups) as never,
  };
}

function planned(input: ShortInput): readonly PassStep[] {
  const chosen = CHOSEN[input.on];
  if (chosen === undefined) throw new Error(`no path runs services on ${input.on}`);
  const service = { metadata: { name: "chat", namespace: "default" }, spec: {} } as InferenceService;
  const live = { key: "default/chat", service, own: ownOf(input), backend: undefined };
  const steps = all(input.routes).map(
    (object) => ({ do: "remove", what: "aiGatewayRoutes", object, because: "no Gateway" }) as never,
  );
  return planServicePass({
    live,
    chosen,
    paths,
    route: { steps, report: () => ({ gateway: undefined, conditions: [] }) },
  });
}

function short(step: PassStep): object {
  const { do: verb, because } = step;
  const path = "path" in step ? step.path.names : undefined;
  const steps = step.do === "route" ? step.route.steps : "steps" in step ? step.steps : [];
  const elsewhere = step.do === "writeStatus" ? step.elsewhere?.message : undefined;
  return JSON.parse(JSON.stringify({ do: verb, path, elsewhere, because, steps: steps.map(shortStep) }));
}

function shortStep(step: PathStep): string {
  const object: KubeObject = "pod" in step ? step.pod : "object" in step ? step.object : step.service;
  return `${step.do} ${"what" in step ? step.what : ""} ${object.metadata.name}: ${step.because}`;
}

testGoldens(new URL("golden-plan/", import.meta.url).pathname, (input: ShortInput) =>
  planned(input).map(short),
);

test("a service leaves its other path only once it is settled", () => {
  const settled = ["Ready", "Stopped", "Suspended", "Idle"] as const;
  const others = ["Pending", "Creating", "Progressing", "Degraded", "Failed", "WaitingForCapacity"] as const;
  expect(settled.every((phase) => needsNoOtherPath({ phase }))).toBe(true);
  expect(others.some((phase) => needsNoOtherPath({ phase }))).toBe(false);
});
