import { describe, expect, it, test } from "vitest";
import { inferenceServiceSchema } from "../../api/inference-service/index.ts";
import type { Model } from "../../api/model.ts";
import type { ControllerRevision } from "../../kube/objects.ts";
import { historyOf } from "./history.ts";
import { chooseRevision, planUndo } from "./undo.ts";

const SOURCE = "hf://org/repo/a.gguf";

function service(spec: object, observedGeneration = 5, currentRevision?: string) {
  return inferenceServiceSchema.parse({
    metadata: { name: "chat", namespace: "team", uid: "s1", generation: 5 },
    spec: { modelRef: "a", ...spec },
    status: { observedGeneration, currentRevision },
  });
}

function revision(number: number, spec: object, source = SOURCE): ControllerRevision {
  const template = {
    serviceName: "chat",
    serviceUid: "s1",
    revision: `hash${number}`,
    runtime: "llamacpp",
    model: { source, format: "gguf" },
    engine: { mode: "chat" },
  };
  return {
    metadata: { name: `chat-hash${number}`, labels: { "metalbridge.dev/revision": `hash${number}` } },
    revision: number,
    data: { template, spec: { modelRef: "a", ...spec }, model: { name: "a", source } },
  };
}

const model = (source = SOURCE) => ({ metadata: { name: "a" }, spec: { source } }) as unknown as Model;
const three = [revision(4, { contextSize: 4096 }), revision(1, {}), revision(3, { contextSize: 2048 })];

describe("the revision that is gone back to", () => {
  const history = historyOf(service({}), three);

  it("is the last but one, whatever order they are listed in", () => {
    expect(chooseRevision(service({}), history, 0).revision).toBe(3);
  });

  it.each([
    ["what serves, while its second correction is broken too", "hash1", 1],
    ["what serves, while its first change is rolled out", "hash3", 3],
    ["the last but one, once the newest serves", "hash4", 3],
    ["the last but one, where what serves is not kept", "hash0", 3],
  ])("is %s", (_, currentRevision, expected) => {
    const current = service({}, 5, currentRevision);
    expect(chooseRevision(current, historyOf(current, three), 0).revision).toBe(expected);
  });

  it("is the one that is named, whatever serves", () => {
    const current = service({}, 5, "hash1");
    expect(chooseRevision(current, historyOf(current, three), 3).revision).toBe(3);
    expect(chooseRevision(service({}), history, 1).revision).toBe(1);
  });

  it.each([2, 5, 999_999_999])(
    "is not %d, which is not stored; the error lists the stored revisions",
    (number) => {
      expect(() => chooseRevision(service({}), history, number)).toThrow(
        /has no revision \d+; stored revisions: 1, 3, 4/,
      );
    },
  );

  it("is not guessed while the newest revision is not yet that of the spec", () => {
    expect(() => chooseRevision(service({}, 4), history, 0)).toThrow(/not seen the last change/);
    expect(chooseRevision(service({}, 4), history, 3).revision).toBe(3);
  });

  it.each([[[]], [three.slice(0, 1)]])("does not exist where there is none before", (revisions) => {
    expect(() => chooseRevision(service({}), historyOf(service({}), revisions), 0)).toThrow(/no earlier/);
  });
});

test("with placement.on Auto, the revisions of hosts count, because those of pods are of the same changes", () => {
  const ofPods = (number: number) => ({
    ...revision(number, {}),
    data: { spec: { modelRef: "a" }, model: { name: "a", source: SOURCE } },
  });
  const both = [...three, ofPods(2), ofPods(5)];
  const numbers = (spec: object, all: readonly ControllerRevision[]) =>
    historyOf(service(spec), all).map(({ revision: number }) => number);
  expect(numbers({ placement: { on: "Auto" } }, both)).toEqual([1, 3, 4]);
  expect(numbers({ placement: { on: "Auto" } }, [ofPods(2), ofPods(5)])).toEqual([2, 5]);
  expect(numbers({ placement: { on: "Pods" } }, both)).toEqual([1, 2, 3, 4, 5]);
});

test("a change of the BackendRuntime's content is shown, because it makes a revision too", () => {
  const using = (number: number, name: string, content: string) => {
    const stored = revision(number, {});
    const backend = { name, revision: content, spec: { image: "i:1" } };
    return { ...stored, data: { ...(stored.data as object), backend } };
  };
  const history = historyOf(service({}), [
    using(1, "vllm", "a"),
    using(2, "vllm", "b"),
    using(3, "tgi", "c"),
  ]);
  expect(history.map(({ changes }) => changes.map(({ field }) => field))).toEqual([
    [],
    ["BackendRuntime vllm content"],
    [],
  ]);
});

describe("going back", () => {
  const planFor = (spec: object, target: ControllerRevision, now: Model | undefined = model()) => {
    const current = service(spec);
    return planUndo(current, chooseRevision(current, historyOf(current, [target]), target.revision), now);
  };

  it("writes the fields that differ, and only onto what was read", () => {
    const plan = planFor(
      { contextSize: 8192, parallelSlots: 4, replicas: 7, priority: "high" },
      revision(1, { contextSize: 4096, flashAttention: "off" }),
    );
    expect(plan.operations).toEqual([
      { op: "test", path: "/metadata/uid", value: "s1" },
      { op: "test", path: "/metadata/generation", value: 5 },
      { op: "add", path: "/spec/contextSize", value: 4096 },
      { op: "add", path: "/spec/flashAttention", value: "off" },
      { op: "remove", path: "/spec/parallelSlots" },
    ]);
    expect(plan.notes).toEqual([]);
  });

  it("replaces a nested field as a whole", () => {
    const plan = planFor(
      { ropeScaling: { type: "yarn", factor: "2" } },
      revision(1, { ropeScaling: { type: "yarn", factor: "4" } }),
    );
    expect(plan.changes.map(({ field }) => field)).toEqual(["ropeScaling.factor"]);
    expect(plan.operations).toContainEqual({
      op: "add",
      path: "/spec/ropeScaling",
      value: { type: "yarn", factor: "4" },
    });
  });

  it("writes nothing where the spec asks for it already", () => {
    expect(planFor({ contextSize: 4096 }, revision(1, { contextSize: 4096 })).operations).toEqual([]);
  });

  it("touches nothing but what makes a revision, whatever the revision holds", () => {
    const plan = planFor({}, revision(1, { replicas: 0, "metadata/labels": "x", suspend: true }));
    expect(plan.operations).toEqual([]);
  });

  it("says what it does not bring back", () => {
    const target = revision(1, {});
    expect(planFor({}, target, model("hf://org/repo/b.gguf")).notes).toEqual([
      expect.stringContaining("its source was hf://org/repo/a.gguf and is hf://org/repo/b.gguf"),
    ]);
    const current = service({});
    const gone = planUndo(current, chooseRevision(current, historyOf(current, [target]), 1), undefined);
    expect(gone.notes).toEqual([expect.stringContaining("does not exist any more")]);
  });

  it.each([undefined, {}, "text", { spec: 5 }, { template: {} }])(
    "refuses a revision that holds %j",
    (data) => {
      const target = { ...revision(1, {}), data };
      expect(() => planFor({}, target)).toThrow(
        expect.objectContaining({
          code: "RevisionNotRestorable",
          remedy: expect.objectContaining({
            command: expect.stringMatching(/^metalbridge rollout history [a-z]/),
          }),
        }),
      );
    },
  );

  it("keeps earlier content of the Model by modelRevision, and removes that for the current content", () => {
    const [then, now] = ["1".repeat(40), "2".repeat(40)] as const;
    const at = (number: number, content: string): ControllerRevision => {
      const { data, ...rest } = revision(number, {});
      return {
        ...rest,
        data: { ...(data as object), model: { name: "a", source: SOURCE, revision: content } },
      };
    };
    const current = { ...model(), status: { pinned: { key: "k", revision: now } } } as unknown as Model;
    const history = historyOf(service({}), [at(1, then), at(2, now)]);
    expect(history[1]?.changes).toEqual([
      { field: "Model a content", from: then.slice(0, 12), to: now.slice(0, 12) },
    ]);
    const back = planFor({}, at(1, then), current);
    expect(back.operations.slice(2)).toEqual([{ op: "add", path: "/spec/modelRevision", value: then }]);
    expect(back.notes).toEqual([expect.stringContaining("until spec.modelRevision is removed")]);
    const forward = planFor({ modelRevision: then }, at(2, now), current);
    expect(forward.operations.slice(2)).toEqual([{ op: "remove", path: "/spec/modelRevision" }]);
    expect(planFor({ modelRevision: then }, at(1, then), current).operations).toEqual([]);
  });

  it("writes back what pods are made from, where the revision is of pods", () => {
    const target: ControllerRevision = {
      metadata: { name: "chat-p1", labels: { "metalbridge.dev/revision": "p1" } },
      revision: 1,
      data: {
        spec: { modelRef: "a", priority: "normal", image: "a/b:1" },
        model: { name: "a", source: SOURCE },
      },
    };
    const plan = planFor(
      { image: "a/b:2", nodeSelector: { disk: "fast" }, maxPodLifetimeSeconds: 60 },
      target,
    );
    expect(plan.operations.slice(2)).toEqual([
      { op: "add", path: "/spec/image", value: "a/b:1" },
      { op: "remove", path: "/spec/nodeSelector" },
    ]);
  });
});
