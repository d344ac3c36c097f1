/** The life of the ResourceClaimTemplates of a service, and what happens without their DeviceClasses. */
import { expect, test } from "vitest";
import type {
  Deployment,
  LeaderWorkerSet,
  Pod,
  ResourceClaimTemplate,
} from "../../src/kube/workload-objects.ts";
import { NO_OWNED_OBJECTS } from "../frame/owned/observe.ts";
import { stepsOfClaimTemplates, usableClasses, withMissingClass } from "./claims.ts";

function template(name: string, ...classes: readonly string[]): ResourceClaimTemplate {
  const firstAvailable = classes.map((deviceClassName, index) => ({
    name: `f${index + 1}`,
    deviceClassName,
    allocationMode: "ExactCount" as const,
    count: 1,
  }));
  return {
    metadata: { name, namespace: "a" },
    spec: { spec: { devices: { requests: [{ name: "flavor", firstAvailable }] } } },
  };
}

const podSpec = (claim?: string): Pod["spec"] => ({
  containers: [],
  resourceClaims: claim === undefined ? undefined : [{ name: "flavor", resourceClaimTemplateName: claim }],
});
const deploymentOf = (claim?: string): Deployment => ({
  metadata: { name: "chat" },
  spec: { selector: {}, template: { spec: podSpec(claim) } },
});
const podOf = (claim?: string, phase: "Running" | "Failed" = "Running"): Pod => ({
  metadata: { name: `pod-${claim}` },
  spec: podSpec(claim),
  status: { phase },
});

interface Case {
  /** Names of templates: the rendered one, that of the Deployment to apply, that of the live Deployment, of pods, and existing ones. */
  readonly rendered?: string;
  readonly desired?: string;
  readonly live?: string;
  readonly pods?: readonly Pod[];
  readonly existing?: readonly string[];
}

test.each<[string, Case, readonly string[], readonly string[]]>([
  ["a service without devices", {}, [], []],
  ["a new service", { rendered: "a", desired: "a" }, ["apply a"], []],
  ["no change", { rendered: "a", desired: "a", live: "a", existing: ["a"] }, ["apply a"], []],
  [
    "other flavors, before the rollout",
    { rendered: "b", desired: "b", live: "a", pods: [podOf("a")], existing: ["a"] },
    ["apply b"],
    [],
  ],
  [
    "other flavors, while an old pod runs",
    { rendered: "b", desired: "b", live: "b", pods: [podOf("a"), podOf("b")], existing: ["a", "b"] },
    ["apply b"],
    [],
  ],
  [
    "other flavors, after the rollout",
    {
      rendered: "b",
      desired: "b",
      live: "b",
      pods: [podOf("b"), podOf("a", "Failed")],
      existing: ["a", "b"],
    },
    ["apply b"],
    ["remove a"],
  ],
  [
    "a newer controller that keeps the pods of an older one",
    { rendered: "b", desired: "a", live: "a", existing: ["a"] },
    [],
    [],
  ],
  ["flavors that no longer name a class", { live: undefined, existing: ["a"] }, [], ["remove a"]],
])("%s", (_, { rendered, desired, live, pods = [], existing = [] }, before, after) => {
  const own = {
    ...NO_OWNED_OBJECTS,
    deployments: [deploymentOf(live)],
    pods,
    claimTemplates: existing.map((name) => template(name)),
  };
  const claimTemplate = rendered === undefined ? undefined : template(rendered);
  const steps = stepsOfClaimTemplates({ claimTemplate }, [deploymentOf(desired).spec.template], own);
  const text = (list: typeof steps.before) =>
    list.map((step) => `${step.do} ${"object" in step ? step.object.metadata.name : ""}`);
  expect([text(steps.before), text(steps.after)]).toEqual([before, after]);
});

test("the template of a group's claims stays while the group has it, and pods of an earlier one run", () => {
  const template1 = { spec: podSpec("a") };
  const group: LeaderWorkerSet = {
    metadata: { name: "chat-group" },
    spec: { leaderWorkerTemplate: { size: 2, leaderTemplate: template1, workerTemplate: template1 } },
  } as LeaderWorkerSet;
  const claimTemplates = ["a", "old"].map((name) => template(name));
  const own = { ...NO_OWNED_OBJECTS, groups: [group], claimTemplates };
  const { before, after } = stepsOfClaimTemplates(
    { claimTemplate: template("b") },
    [{ spec: podSpec("b") }],
    own,
  );
  expect(
    [...before, ...after].map((step) => `${step.do} ${"object" in step ? step.object.metadata.name : ""}`),
  ).toEqual(["apply b", "remove old"]);
});

const waiting = {
  code: "InsufficientGPU",
  waitingFor: "a device",
  message: "cannot allocate all claims",
  obstacle: "hardware",
  pods: 1,
  priority: 0,
  sinceMs: 0,
} as const;
const classNamed = (name: string) => ({ metadata: { name } });

test("a class that is removed stays usable for the service whose pods use it, which are not replaced", () => {
  const claimTemplates = [template("a", "gpu.example.com", "small.example.com")];
  expect([...usableClasses([classNamed("other")], { claimTemplates })].sort()).toEqual([
    "gpu.example.com",
    "other",
    "small.example.com",
  ]);
  expect([...usableClasses([classNamed("other")], NO_OWNED_OBJECTS)]).toEqual(["other"]);
});

test("a pod that waits says which class is missing, also if it is that of a later flavor", () => {
  const claimTemplates = [template("a", "gpu.example.com", "small.example.com")];
  const all = ["gpu.example.com", "small.example.com"].map(classNamed);
  expect(withMissingClass(waiting, { claimTemplates }, all)).toBe(waiting);
  expect(withMissingClass(undefined, { claimTemplates }, [])).toBeUndefined();
  expect(withMissingClass(waiting, { claimTemplates }, all.slice(0, 1))).toEqual({
    ...waiting,
    code: "DeviceClassMissing",
    waitingFor: "DeviceClass small.example.com",
    message:
      "DeviceClass small.example.com of flavor f2 does not exist; kube-scheduler: cannot allocate all claims",
  });
});
