/** Whole step lists of a service's plan, from an observation that the input files describe in words. */
import { describe, expect, test } from "vitest";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import {
  type InferenceService,
  inferenceServiceSpecSchema,
} from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import { NO_BENCHMARKS } from "../../../src/capacity/benchmark/table.ts";
import type { Placed } from "../../../src/capacity/placement/types.ts";
import { resolveService } from "../../../src/capacity/resolve.ts";
import { toRevisionData } from "../../../src/capacity/revision-data.ts";
import type { TemplateWithoutHost } from "../../../src/capacity/template.ts";
import type { KubeObject } from "../../../src/kube/types.ts";
import { testGoldens } from "../../../test/golden/golden.ts";
import { desiredKubeService } from "../../frame/owned/kube-service.ts";
import { desiredRevision } from "../../frame/owned/revisions.ts";
import type { ServiceStep } from "../../frame/owned/steps.ts";
import { blockedReplicas } from "../path.ts";
import { desiredReplica, desiredSlice } from "./desired.ts";
import { DIRECT, type Sealing, type ServiceObserved } from "./observed.ts";
import { draftService, NO_ROLLOUT_FINDINGS, planService } from "./plan.ts";

interface ShortInput {
  readonly spec?: object;
  /** The spec that replicas of the word `old` were made from. */
  readonly before?: object;
  /** `<ordinal> <current|old> <ready|starting|leaving> <host>` */
  readonly replicas?: readonly string[];
  /** Made, and gone, before: only their slices are left. */
  readonly gone?: readonly string[];
  /** Nothing of the service exists yet. */
  readonly isNew?: boolean;
  /** Addresses of mac-1, where they are others than when the slices were made. */
  readonly addresses?: readonly string[];
  readonly sealing?: Sealing;
  readonly model?: "missing";
  /** `<ordinal> <host>`: what placement answered. */
  readonly placed?: readonly string[];
}

const MODEL = {
  metadata: { name: "tiny", namespace: "default", generation: 1 },
  spec: { source: "https://models.example/tiny.gguf", hardware: { accelerator: "metal" } },
  status: {
    phase: "Ready",
    observedGeneration: 1,
    weightsBytes: 2 ** 30,
    files: ["tiny.gguf"],
    gguf: {
      layerCount: 2,
      headCountKV: 8,
      keyLength: 64,
      valueLength: 64,
      embeddingSize: 512,
      contextLength: 8192,
    },
  },
} as unknown as Model;

function serviceOf(spec: object, isNew = false): InferenceService {
  return {
    metadata: {
      name: "chat",
      namespace: "default",
      uid: "uid-of-chat",
      resourceVersion: "7",
      finalizers: isNew ? undefined : ["metalbridge.dev/service"],
    },
    spec: inferenceServiceSpecSchema.parse({ modelRef: "tiny", contextSize: 2048, ...spec }),
  } as InferenceService;
}

function templateOf(spec: object): TemplateWithoutHost {
  const resolution = resolveService({ service: serviceOf(spec), model: MODEL, replicas: [] });
  if (resolution.at !== "resolved") throw new Error(resolution.message);
  return resolution.template;
}

function hostOf(name: string, addresses: readonly string[]): Host {
  return { metadata: { name }, spec: { addresses, memory: {} }, status: {} } as unknown as Host;
}

/** As the API server would hold it. */
function stored<T extends { metadata: object }>(object: T, uid: string): T {
  return { ...object, metadata: { ...object.metadata, uid, resourceVersion: "5" } };
}

function observedOf({ spec = {}, before = spec, ...short }: ShortInput): ServiceObserved {
  const service = serviceOf(spec, short.isNew);
  const hosts = ["mac-1", "mac-2"].map((name, index) => hostOf(name, [`192.0.2.${index + 1}`]));
  const make = (word: string): InferenceReplica => {
    const [ordinal = "0", age, state, host = "mac-1"] = word.split(" ");
    const made = age === "old" ? before : spec;
    const memory = resolvedMemory(made);
    const parts = {
      service: serviceOf(made),
      template: templateOf(made),
      memory,
      sealing: DIRECT,
      placed: { host, score: 1, why: "it was free" },
      taken: new Set<string>(),
    };
    const replica = stored(desiredReplica({ ...parts, ordinal: Number(ordinal) }), `uid-of-${word}`);
    const conditions = [{ type: "HostReachable", status: "True" }];
    return {
      ...replica,
      metadata: { ...replica.metadata, ...(state === "leaving" ? { deletionTimestamp: "now" } : {}) },
      status: { phase: state === "ready" ? "Ready" : "Starting", conditions },
    } as InferenceReplica;
  };
  const replicas = (short.replicas ?? []).map(make);
  const withSlices = [...replicas, ...(short.gone ?? []).map(make)];
  const slices = withSlices.map((replica) => {
    const host = hosts.find(({ metadata }) => metadata.name === replica.spec.template.hostName);
    return stored(desiredSlice(replica, service, host), `slice of ${replica.metadata.uid}`);
  });
  const templates = [
    ...new Map([before, spec].map((one) => [templateOf(one).revision, templateOf(one)])).values(),
  ];
  const hostsNow = hosts.map((host, index) =>
    index === 0 && short.addresses !== undefined ? hostOf("mac-1", short.addresses) : host,
  );
  return {
    service,
    model: short.model === "missing" ? undefined : MODEL,
    benchmarks: NO_BENCHMARKS,
    hosts: new Map(hostsNow.map((host) => [host.metadata.name, host])),
    replicas,
    slices,
    relaySlices: [],
    sealing: short.sealing ?? DIRECT,
    kubeServices: short.isNew ? [] : [stored(desiredKubeService(service), "uid-of-service")],
    revisions: short.isNew
      ? []
      : templates
          .slice(0, short.replicas?.some((word) => word.includes("current")) ? 2 : 1)
          .map((template, index) =>
            stored(
              desiredRevision(service, {
                hash: template.revision,
                data: toRevisionData({ service, model: MODEL, backend: undefined }, template),
                revision: index + 1,
              }),
              `revision-${index + 1}`,
            ),
          ),
  };
}

function resolvedMemory(spec: object): InferenceReplica["spec"]["memory"] {
  const resolution = resolveService({ service: serviceOf(spec), model: MODEL, replicas: [] });
  if (resolution.at !== "resolved" || resolution.claim.at !== "estimated") throw new Error("not estimated");
  return resolution.claim.memory;
}

function planned(short: ShortInput): ServiceStep[] {
  const draft = draftService(observedOf(short));
  const placed = (short.placed ?? []).map((word): Placed => {
    const [ordinal, host = ""] = word.split(" ");
    return { service: "default/chat", ordinal: Number(ordinal), host, score: 1, why: "" };
  });
  return planService(draft, placed, () => true);
}

/** Creates whole, everything else by name. */
function shortStep(step: ServiceStep): object {
  switch (step.do) {
    case "addFinalizer":
    case "removeFinalizer":
      return { do: step.do };
    case "create":
    case "apply":
      return { do: step.do, what: step.what, object: withoutSums(step.object) };
    case "patch": {
      const { name } = step.object.metadata;
      return { do: step.do, what: step.what, name, because: step.because, operations: step.operations };
    }
    case "remove":
      return { do: step.do, what: step.what, name: step.object.metadata.name, because: step.because };
    default:
      return step satisfies never;
  }
}

/** The estimate has tests of its own. */
function withoutSums(object: object): object {
  if (!("spec" in object) || typeof object.spec !== "object") return object;
  const isReplica = object.spec !== null && "memory" in object.spec;
  return isReplica ? { ...object, spec: { ...object.spec, memory: "as estimated" } } : object;
}

describe("golden", () => {
  testGoldens(`${import.meta.dirname}/golden-steps`, (short: ShortInput) => planned(short).map(shortStep));
});

test("a changed family of the Model is corrected in labels only, and stays while the Model is missing", () => {
  const observed = observedOf({ replicas: ["0 current ready"] });
  const path = "/metadata/labels/metalbridge.dev~1model-family";
  const stepsWith = (model: Model | undefined, familyNow?: string) => {
    const labeled = <T extends KubeObject>(one: T): T => ({
      ...one,
      metadata: {
        ...one.metadata,
        labels: { ...one.metadata.labels, ...(familyNow && { "metalbridge.dev/model-family": familyNow }) },
      },
    });
    const replicas = observed.replicas.map(labeled);
    const kubeServices = observed.kubeServices.map(labeled);
    const steps = planService(draftService({ ...observed, model, replicas, kubeServices }), [], () => true);
    expect(steps.filter((step) => step.do === "create" || step.do === "remove")).toEqual([]);
    return steps.flatMap((step) =>
      step.do === "patch" ? [[step.what, step.operations.filter((one) => one.path === path)]] : [],
    );
  };
  const llama = { ...MODEL, spec: { ...MODEL.spec, familyName: "llama3" } };
  const both = (...operations: object[]) => [
    ["kubeServices", operations],
    ["replicas", operations],
  ];
  expect(stepsWith(llama)).toEqual(both({ op: "add", path, value: "llama3" }));
  expect(stepsWith(llama, "llama2")).toEqual(both({ op: "add", path, value: "llama3" }));
  expect(stepsWith(MODEL, "llama2")).toEqual(both({ op: "remove", path }));
  expect(stepsWith(llama, "llama3")).toEqual([]);
  expect(stepsWith(undefined, "llama3")).toEqual([]);
});

test("a new replica has the family of its Model, and its revision has not", () => {
  const observed = observedOf({ isNew: true });
  const model = { ...MODEL, spec: { ...MODEL.spec, familyName: "llama3" } };
  const placed = [{ service: "default/chat", ordinal: 0, host: "mac-2", score: 1, why: "" }];
  const created = [observed, { ...observed, model }].map((one) =>
    planService(draftService(one), placed, () => true).flatMap((step) =>
      step.do === "create" && step.what !== "slices" && step.what !== "revisions"
        ? [step.object.metadata]
        : [],
    ),
  );
  const [without = [], withFamily = []] = created;
  expect(withFamily.map(({ labels }) => labels?.["metalbridge.dev/model-family"])).toEqual([
    "llama3",
    "llama3",
  ]);
  expect(withFamily.map(({ name }) => name)).toEqual(without.map(({ name }) => name));
});

test("a slot whose replica was lost takes the next free name", () => {
  const observed = observedOf({ replicas: ["0 current leaving mac-1"] });
  const draft = draftService(observed);
  const steps = planService(
    draft,
    [{ service: "default/chat", ordinal: 0, host: "mac-2", score: 1, why: "" }],
    () => true,
  );
  const names = steps.flatMap((step) => (step.do === "create" ? [step.object.metadata.name] : []));
  expect(names).toHaveLength(2);
  expect(new Set(names).size).toBe(1);
  expect(names[0]).not.toBe(observed.replicas[0]?.metadata.name);
});

test("a claim that its host could never hold is updated only if the engine runs nevertheless", () => {
  const observed = observedOf({ replicas: ["0 current ready mac-1"] });
  const memory = { gpuBudgetBytes: 1024, totalBytes: 1024 };
  const host = { ...hostOf("mac-1", ["192.0.2.1"]), status: { memory } } as unknown as Host;
  const patches = (status: object) => {
    const replicas = observed.replicas.map((one) => ({
      ...one,
      spec: { ...one.spec, memory: { ...one.spec.memory, claimBytes: 512 } },
      status: { ...one.status, ...status },
    }));
    const seen = { ...observed, replicas, hosts: new Map([["mac-1", host]]) };
    const steps = planService(draftService(seen), [], () => true);
    return steps.filter((step) => step.do === "patch" && step.what === "replicas");
  };
  expect(patches({})).toEqual([]);
  expect(patches({ memory: { claimBytes: 512 } })).toHaveLength(1);
});

test("a replica that leaves for a better host stays where there is none, and goes to none that is no better; one of a drained host must go", () => {
  const observed = observedOf({ replicas: ["0 current ready mac-1"] });
  const [refusal, worse] = ["mac-1", "mac-2"].map((host) => ({ host, atMs: 0, message: "why" }));
  const findings = {
    ...NO_ROLLOUT_FINDINGS,
    leaving: ["mac-1"],
    refusals: refusal && [refusal],
    notTo: worse && [worse],
  } as typeof NO_ROLLOUT_FINDINGS;
  const seen = (replica: (typeof observed.replicas)[number] | undefined, drain: boolean) => {
    const hosts = [...observed.hosts.values()].map((one) => ({ ...one, spec: { ...one.spec, drain } }));
    const by = new Map(hosts.map((one) => [one.metadata.name, one]));
    const replicas = replica === undefined ? [] : [replica];
    const draft = draftService({ ...observed, replicas, hosts: by }, findings);
    const unplaced = draft.demands.map(({ service, ordinal }) => ({ service, ordinal, message: "full" }));
    const blocked = blockedReplicas(draft, unplaced as unknown as Parameters<typeof blockedReplicas>[1]);
    const refused = draft.demands.flatMap(({ refusals }) => refusals.map(({ host }) => host));
    return { refused, mayStay: [...draft.mayStay], stays: blocked.size };
  };
  const [replica] = observed.replicas;
  expect(seen(replica, false)).toEqual({ refused: ["mac-1", "mac-2"], mayStay: [0], stays: 0 });
  expect(seen(replica, true)).toEqual({ refused: ["mac-1"], mayStay: [], stays: 1 });
  const lost = replica && { ...replica, status: { ...replica.status, phase: "Starting" as const } };
  expect(seen(lost as typeof replica, false)).toMatchObject({ mayStay: [] });
  expect(seen(undefined, false)).toEqual({ refused: ["mac-1"], mayStay: [], stays: 0 });
});
