import { describe, expect, it } from "vitest";
import { inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { modelSchema } from "../../src/api/model.ts";
import { rolloutProgressOf } from "./progress.ts";

interface Case {
  readonly metadata?: object;
  readonly status?: object;
  readonly progressing?: readonly ["True" | "False", string, string];
  /** Generation of the Model, the one that the controller has seen, and its source. */
  readonly model?: readonly [generation: number, observed: number, source: string];
}

function progress({ metadata, status, progressing, model }: Case) {
  const [condition, reason, message] = progressing ?? [];
  const conditions =
    condition === undefined
      ? []
      : [
          {
            type: "Progressing",
            status: condition,
            reason,
            message,
            lastTransitionTime: "2026-03-01T12:00:00Z",
          },
        ];
  return rolloutProgressOf(
    inferenceServiceSchema.parse({
      metadata: { name: "chat", generation: 3, ...metadata },
      spec: { modelRef: "tiny", replicas: 3 },
      status: status === undefined ? undefined : { observedGeneration: 3, conditions, ...status },
    }),
    model &&
      modelSchema.parse({
        metadata: { name: "tiny", generation: model[0] },
        spec: { source: model[2] },
        status: { observedGeneration: model[1] },
      }),
  );
}

const NEW = "hf://org/new";
const complete = { desiredReplicas: 3, replicas: 3, updatedReplicas: 3, readyReplicas: 3 };

describe("progress of a rollout", () => {
  it.each<[string, Case, string, RegExp]>([
    ["is unknown until the controller has observed the service", {}, "moving", /not seen/],
    [
      "is not what an older generation had",
      { status: { ...complete, observedGeneration: 2 } },
      "moving",
      /not seen/,
    ],
    [
      "is done when all wanted are new and answer",
      { status: { ...complete, updateRevision: "ab12" } },
      "done",
      /3 of 3 replicas of revision ab12/,
    ],
    [
      "is not what an older generation of the Model had",
      { status: complete, model: [2, 1, NEW] },
      "moving",
      /not seen the last change of Model tiny/,
    ],
    [
      "is not what the service had with the Model's source before",
      { status: { ...complete, model: { name: "tiny", source: "hf://org/old" } }, model: [2, 2, NEW] },
      "moving",
      /not seen the last change of Model tiny/,
    ],
    [
      "is done when the service has the Model as it is",
      { status: { ...complete, model: { name: "tiny", source: NEW } }, model: [2, 2, NEW] },
      "done",
      /rolled out/,
    ],
    [
      "waits for new replicas",
      { status: { ...complete, updatedReplicas: 1 } },
      "moving",
      /1 of 3 replicas are of the new/,
    ],
    [
      "waits for old ones to leave",
      { status: { ...complete, replicas: 4 } },
      "moving",
      /1 old replicas have not left/,
    ],
    ["waits for answers", { status: { ...complete, readyReplicas: 2 } }, "moving", /2 of 3 replicas answer/],
    [
      "names what is short",
      { status: { ...complete, updatedReplicas: 2, waitingFor: "memory: 3 GiB" } },
      "moving",
      /waiting for memory: 3 GiB/,
    ],
    [
      "believes the controller's sentence",
      {
        status: { ...complete, updatedReplicas: 2 },
        progressing: ["True", "NewRevisionRollingOut", "2 of 3 updated, 1 old serving"],
      },
      "moving",
      /^2 of 3 updated, 1 old serving$/,
    ],
    [
      "waits for the controller to call it done",
      { status: complete, progressing: ["True", "NewRevisionRollingOut", ""] },
      "moving",
      /not done/,
    ],
    [
      "is done with the controller's word",
      { status: complete, progressing: ["False", "RolloutComplete", "all new"] },
      "done",
      /rolled out/,
    ],
    [
      "is done while a replica moves from host to host",
      { status: { ...complete, replicas: 4 }, progressing: ["False", "RolloutComplete", "3 of 3 updated"] },
      "done",
      /rolled out/,
    ],
    [
      "stops with the new revision",
      {
        status: { ...complete, updatedReplicas: 1 },
        progressing: ["False", "RolloutStopped", "chat-0 is Failed"],
      },
      "stopped",
      /chat-0 is Failed/,
    ],
    [
      "stops with pods that are not ready in time",
      { status: complete, progressing: ["False", "RolloutDeadlineExceeded", "1 of 3 replicas ready"] },
      "stopped",
      /1 of 3/,
    ],
    [
      "stops where it will not work",
      { status: { phase: "Failed", reason: "ModelFailed", message: "no such file" } },
      "stopped",
      /no such file/,
    ],
    [
      "is done for a suspended service",
      { status: { desiredReplicas: 0, replicas: 0 } },
      "done",
      /is scaled to 0 replicas/,
    ],
    [
      "waits for what a suspended service still has",
      { status: { desiredReplicas: 0, replicas: 2 } },
      "moving",
      /2 replicas are still leaving/,
    ],
    [
      "ends with the service",
      { metadata: { deletionTimestamp: "2026-03-01T12:00:00Z" }, status: complete },
      "stopped",
      /being deleted/,
    ],
  ])("%s", (_name, input, at, message) => {
    expect(progress(input)).toMatchObject({ at, message: expect.stringMatching(message) });
  });
});
