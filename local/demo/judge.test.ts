import { expect, test } from "vitest";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";
import { type AppliedObjects, findingsOf } from "./judge.ts";

const NEW = "hf://org/new";
const OLD = "/old/README.md";

/** As this run has applied them: the Model changed, the service did not. */
const applied = { model: model(2, 1), service: service({ generation: 1 }) } satisfies AppliedObjects;

test("nothing is reported while every status is about what an earlier run asked for", () => {
  const seen = {
    model: model(2, 1, "Failed"),
    service: service({ generation: 1, source: OLD, phase: "Failed", updateRevision: "old" }),
    replicas: [replica("quickstart-0-old", { revision: "old", source: OLD, phase: "Failed" })],
  };
  expect(findingsOf(seen, applied)).toEqual([]);
});

test("the failure of a service counts once no replica of another revision is left", () => {
  const failed = service({ generation: 1, source: NEW, phase: "Failed", updateRevision: "new" });
  const old = replica("quickstart-0-old", { revision: "old", source: OLD, phase: "Failed" });
  const seen = { model: model(2, 2, "Ready"), service: failed };
  expect(phases({ ...seen, replicas: [old] })).toEqual({ "Model/quickstart": "Ready" });
  expect(phases({ ...seen, replicas: [] })).toEqual({
    "Model/quickstart": "Ready",
    "InferenceService/quickstart": "Failed",
  });
});

test("a replica counts only under the revision that the service is to have now", () => {
  const wanted = replica("quickstart-0-new", { revision: "new", source: NEW, phase: "Failed" });
  const old = replica("quickstart-0-old", { revision: "old", source: OLD, phase: "Ready" });
  const stopped = replica("quickstart-1-new", { revision: "new", source: NEW, phase: "Stopped" });
  const seen = {
    model: model(2, 2, "Ready"),
    service: service({ generation: 1, source: NEW, phase: "Progressing", updateRevision: "new" }),
    replicas: [wanted, old, stopped],
  };
  expect(phases(seen)).toEqual({
    "Model/quickstart": "Ready",
    "InferenceReplica/quickstart-0-new": "Failed",
    "InferenceService/quickstart": "Progressing",
  });
});

test("a status of an older generation is about an earlier run, whatever it says", () => {
  const changed = { ...applied, service: service({ generation: 5 }) };
  const ready = service({ generation: 5, observed: 4, source: NEW, phase: "Ready", updateRevision: "new" });
  const own = replica("quickstart-0-new", { revision: "new", source: NEW, phase: "Ready" });
  expect(findingsOf({ model: model(2, 2), service: ready, replicas: [own] }, changed)).toEqual([]);
});

test("a service that was given another Model by the user is judged by that", () => {
  const spec = { generation: 1, modelRef: "mine", source: "hf://org/mine", phase: "Ready" } as const;
  const other = { ...applied, service: service(spec) };
  const seen = {
    model: model(2, 2, "Ready"),
    service: service({ ...spec, updateRevision: "mine" }),
    replicas: [replica("quickstart-0-mine", { revision: "mine", source: "hf://org/mine", phase: "Ready" })],
  };
  expect(findingsOf(seen, other).map(({ who }) => who)).toContain("InferenceService/quickstart");
  expect(findingsOf(seen, other).map(({ who }) => who)).toContain("InferenceReplica/quickstart-0-mine");
});

function phases(seen: Parameters<typeof findingsOf>[0]): Readonly<Record<string, string>> {
  return Object.fromEntries(findingsOf(seen, applied).map(({ who, phase }) => [who, phase]));
}

function model(generation: number, observedGeneration: number, phase?: string): Model {
  return {
    metadata: { name: "quickstart", generation },
    spec: { source: NEW },
    status: { observedGeneration, phase },
  } as Model;
}

interface ServiceFacts {
  readonly generation: number;
  readonly observed?: number;
  readonly modelRef?: string;
  readonly source?: string;
  readonly phase?: string;
  readonly updateRevision?: string;
}

function service({ generation, observed = generation, modelRef, source, ...rest }: ServiceFacts) {
  return {
    metadata: { name: "quickstart", generation },
    spec: { modelRef: modelRef ?? "quickstart" },
    status: { observedGeneration: observed, model: { name: "quickstart", source }, ...rest },
  } as unknown as InferenceService;
}

function replica(
  name: string,
  { revision, source, phase }: { revision: string; source: string; phase: string },
) {
  return {
    metadata: { name },
    spec: { template: { revision, model: { source } } },
    status: { phase },
  } as unknown as InferenceReplica;
}
