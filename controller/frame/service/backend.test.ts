/** Which content of its BackendRuntime a service uses, and what both report about it. */
import { expect, test } from "vitest";
import { backendRuntimeSchema } from "../../../src/api/backend-runtime.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { RevisionData, Side } from "../../../src/capacity/revision-data.ts";
import type { ControllerRevision } from "../../../src/kube/objects.ts";
import type { JsonPatchOp } from "../../../src/kube/types.ts";
import { statusOfBackend } from "../../options/backend/option.ts";
import { withBackendStatus } from "../../services/backend-status.ts";
import { stepsOfRevisions } from "../owned/revisions.ts";
import { backendBlocked, backendOf, type ChosenBackend, revisionOfBackend } from "./backend.ts";

const NOW = "2026-01-01T00:00:00Z";

function runtime(tag: string) {
  return backendRuntimeSchema.parse({
    metadata: { name: "engine", generation: 3 },
    spec: { image: `registry.example/engine:${tag}` },
  });
}

function service(spec: object = {}, annotations: Readonly<Record<string, string>> = {}): InferenceService {
  return {
    metadata: { name: "chat", namespace: "team", uid: "uid-1", generation: 1, annotations },
    spec: { backendRuntime: { name: "engine" }, replicas: 1, rollout: {}, ...spec },
    status: {},
  } as unknown as InferenceService;
}

const revisionOf = (tag: string) => revisionOfBackend(runtime(tag).spec);

function choose(
  one: InferenceService,
  tag: string | undefined,
  revisions: readonly ControllerRevision[] = [],
) {
  const facts = {
    backendRuntimes: { get: () => (tag === undefined ? undefined : runtime(tag)) },
    backendsProblem: () => undefined,
    ofService: { revisions: { of: () => revisions } },
  };
  return backendOf(facts, one);
}

/** The revisions of a service after a pass that renders `hash`, as the API server would store them. */
function passed(
  one: InferenceService,
  backend: ChosenBackend | undefined,
  hash: string,
  revisions: readonly ControllerRevision[] = [],
  side: Side = "Pods",
): readonly ControllerRevision[] {
  const template = side === "Hosts" ? ({} as RevisionData["template"]) : undefined;
  const stored = { spec: {}, model: { name: "m", source: "hf://a/b" }, backend };
  const data = () => (template === undefined ? stored : { ...stored, template });
  const running: string[] = [];
  const steps = stepsOfRevisions({ service: one, side, revisions, hash, backend, data, running });
  let all = revisions;
  for (const step of steps) {
    if (!("what" in step) || step.what !== "revisions" || step.do === "apply") throw new Error(step.do);
    const others = all.filter((other) => other !== step.object);
    if (step.do === "create") all = [...all, step.object];
    else if (step.do === "remove") all = others;
    else all = [patched(step.object, step.operations), ...others];
  }
  return all;
}

function patched(object: ControllerRevision, operations: readonly JsonPatchOp[]): ControllerRevision {
  const value = (path: string) =>
    operations.flatMap((op) => (op.op === "add" && op.path === path ? op.value : []))[0];
  const [revision, annotations] = [value("/revision"), value("/metadata/annotations")];
  return {
    ...object,
    revision: (revision as number | undefined) ?? object.revision,
    metadata: {
      ...object.metadata,
      annotations: (annotations as Record<string, string> | undefined) ?? object.metadata.annotations,
    },
  };
}

/** A service that was rendered with the content `tag`, and its revision. */
function rendered(tag: string, one = service()) {
  return { one, revisions: passed(one, choose(one, tag), "first") };
}

const shown = (chosen: ChosenBackend | undefined) =>
  chosen && `${chosen.is} ${chosen.spec.image?.split(":")[1]}`;

test("a service keeps what it was rendered with until its spec changes or a restart is requested", () => {
  const { one, revisions } = rendered("v1");
  expect(shown(choose(one, "v1", revisions))).toBe("Current v1");
  expect(shown(choose(one, "v2", revisions))).toBe("Outdated v1");
  expect(shown(choose(service({ replicas: 5, suspend: true }), "v2", revisions))).toBe("Outdated v1");
  expect(shown(choose(service({ contextSize: 2048 }), "v2", revisions))).toBe("Current v2");
  const restarted = service({}, { "metalbridge.dev/restarted-at": NOW });
  expect(shown(choose(restarted, "v2", revisions))).toBe("Current v2");
  // Once it is rendered again, the next change has to be requested too.
  const after = passed(restarted, choose(restarted, "v2", revisions), "second", revisions);
  expect(shown(choose(restarted, "v3", after))).toBe("Outdated v2");
});

test("a service without a revision of its BackendRuntime begins with the current content", () => {
  const { one, revisions } = rendered("v1");
  expect(shown(choose(one, "v2"))).toBe("Current v2");
  const other = service({ backendRuntime: { name: "another" } });
  expect(shown(choose(other, "v2", revisions))).toBe("Current v2");
});

test("content that renders the same template as before is stored too, and kept from then on", () => {
  const { one, revisions } = rendered("v1");
  const changed = service({ contextSize: 2048 });
  // The data of a ControllerRevision cannot be changed, so it is removed and created again.
  const removed = passed(changed, choose(changed, "v2", revisions), "first", revisions);
  expect(removed).toEqual([]);
  const created = passed(changed, choose(changed, "v2", removed), "first", removed);
  expect(shown(choose(changed, "v3", created))).toBe("Outdated v2");
  // Without other content, only the request is recorded.
  const again = passed(changed, choose(changed, "v1", revisions), "first", revisions);
  expect(again).toHaveLength(1);
  expect(shown(choose(changed, "v3", again))).toBe("Outdated v1");
  expect(shown(choose(one, "v3", again))).toBe("Current v3");
});

test("a rollback returns to the content of the revision that serves, whatever the BackendRuntime has become", () => {
  const { one, revisions } = rendered("v1");
  const changed = service({ contextSize: 2048 });
  expect(shown(choose(changed, "v2", revisions))).toBe("Current v2");
  const broken = passed(changed, choose(changed, "v2", revisions), "second", revisions);
  expect(shown(choose(one, "v2", broken))).toBe("Outdated v1");
  const restored = passed(one, choose(one, "v2", broken), "first", broken);
  expect(restored.map(({ revision }) => revision)).toEqual([3, 2]);
  // The same for a service that did not name it in between.
  expect(shown(choose(one, "v2", passed(one, undefined, "plain", revisions)))).toBe("Outdated v1");
  expect(shown(choose(one, "v2", restored))).toBe("Outdated v1");
});

test("on hosts, a field that replaces only pods takes no other content", () => {
  const one = service();
  const revisions = passed(one, choose(one, "v1"), "first", [], "Hosts");
  expect(shown(choose(service({ priority: "high" }), "v2", revisions))).toBe("Outdated v1");
  expect(shown(choose(service({ contextSize: 2048 }), "v2", revisions))).toBe("Current v2");
  expect(shown(choose(service({ priority: "high" }), "v2", rendered("v1").revisions))).toBe("Current v2");
});

test("an earlier revision that is in use again is the newest, whose content is kept", () => {
  const { one, revisions } = rendered("v1");
  const changed = service({ contextSize: 2048 });
  const both = passed(changed, choose(changed, "v1", revisions), "second", revisions);
  const back = passed(one, choose(one, "v1", both), "first", both);
  expect(back.map(({ revision }) => revision)).toEqual([3, 2]);
  expect(shown(choose(one, "v2", back))).toBe("Outdated v1");
});

test("revisions of an earlier service of the same name do not count", () => {
  const { one, revisions } = rendered("v1");
  const again = { ...one, metadata: { ...one.metadata, uid: "uid-2" } };
  expect(shown(choose(again, "v2", revisions))).toBe("Current v2");
});

test("a service keeps the content of a BackendRuntime that is deleted, also when its spec changes", () => {
  const { one, revisions } = rendered("v1");
  expect(shown(choose(one, undefined, revisions))).toBe("Deleted v1");
  expect(shown(choose(service({ contextSize: 2048 }), undefined, revisions))).toBe("Deleted v1");
  expect(choose(one, undefined)).toBeUndefined();
});

test("the condition of an outdated service has the command that updates it", () => {
  const { one, revisions } = rendered("v1");
  const status = withBackendStatus({ service: one, backend: choose(one, "v2", revisions) }, {}, NOW);
  expect(status.backendRuntime).toEqual({ name: "engine", revision: revisionOf("v1") });
  expect(status.conditions).toMatchObject([{ status: "False", reason: "UpdatePending" }]);
  expect(status.conditions?.[0]?.message).toMatch(/metalbridge rollout restart chat -n team$/);
});

test("a BackendRuntime counts the services that use its current content, and names the outdated ones", () => {
  const using = (name: string, tag: string | undefined, deletionTimestamp?: string) => ({
    ...service(),
    metadata: { name, namespace: "team", deletionTimestamp },
    status: tag === undefined ? {} : { backendRuntime: { name: "engine", revision: revisionOf(tag) } },
  });
  const services = [using("b", "v1"), using("a", "v1"), using("c", "v2"), using("d", undefined)];
  const report = (...of: readonly InferenceService[]) => statusOfBackend(runtime("v2"), of, NOW);
  expect(report(...services, using("e", "v1", NOW))).toMatchObject({
    services: 4,
    updatedServices: 2,
    observedGeneration: 3,
    reason: "ServicesOutdated",
    message:
      "2 of 4 services use the current content; outdated: team/a, team/b. Update one: metalbridge rollout restart SERVICE -n NAMESPACE",
    conditions: [{ type: "ServicesUpdated", status: "False" }],
  });
  expect(report(using("c", "v2"))).toMatchObject({ reason: "AllUpdated", services: 1, updatedServices: 1 });
  expect(report()).toMatchObject({ reason: "NotUsed", services: 0 });
  const many = Array.from({ length: 12 }, (_, index) => using(`s-${index + 10}`, "v1"));
  expect(report(...many).message).toContain("team/s-19 and 2 more");
});

test("without BackendRuntimes that can be read, a service waits and keeps the content in use", () => {
  const one = {
    ...service(),
    status: { backendRuntime: { name: "engine", revision: revisionOf("v1") } },
  } as InferenceService;
  const problem = "the cluster lacks the CRD";
  const facts = {
    backendRuntimes: { get: () => runtime("v2") },
    backendsProblem: () => problem,
    ofService: { revisions: { of: () => [] } },
  };
  const blocked = backendBlocked(facts, one);
  expect(backendOf(facts, one)).toBeUndefined();
  expect(blocked).toMatchObject({ code: "BackendRuntimesUnavailable", isFinal: false });
  const status = withBackendStatus({ service: one, backend: undefined, blocked }, {}, NOW);
  expect(status.backendRuntime).toEqual(one.status?.backendRuntime);
  expect(status.conditions).toMatchObject([
    {
      type: "BackendRuntimeCurrent",
      status: "Unknown",
      message: `cannot read BackendRuntime engine: ${problem}`,
    },
  ]);
  expect(backendBlocked(facts, service({ backendRuntime: undefined }))).toBeUndefined();
});
