import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse, stringify } from "yaml";
import type { Host } from "../../src/api/host.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Model, ModelStatus } from "../../src/api/model.ts";
import type { Inspected } from "../../src/hub/inspect/inspect.ts";
import { desiredCacheOf } from "../pods/workload/cache-eligibility.ts";
import type { CacheState } from "./cache/plan.ts";
import { modelConfigSchema } from "./config.ts";
import { planModelStatus } from "./plan.ts";
import { classifyModel } from "./source/classify.ts";
import {
  firstRecord,
  type InspectionResult,
  isInspectionDue,
  recordInspection,
} from "./source/inspections.ts";

const FOLDER = new URL("golden/", import.meta.url);
const NOW = "2026-01-02T03:04:05Z";

interface Case {
  readonly model: Model;
  readonly hosts?: readonly Host[];
  readonly inspection?: InspectionResult;
  readonly cache?: CacheState;
}

const settings = modelConfigSchema.parse({ image: "registry.example.com/metalbridge:1" });
const taskOf = (of: Model) => classifyModel(of, desiredCacheOf(of, [], settings));

const cases = readdirSync(FOLDER).filter((name) => name.endsWith(".input.yaml"));

test.each(cases)("golden: %s", (name) => {
  const { model, hosts = [], inspection, cache }: Case = parse(readFileSync(new URL(name, FOLDER), "utf8"));
  const status = planModelStatus({ model, hosts, task: taskOf(model), inspection, cache }, NOW);
  const expected = new URL(name.replace(".input.", ".plan."), FOLDER);
  if (process.env.UPDATE_GOLDEN === "1") writeFileSync(expected, stringify(status, { lineWidth: 0 }));
  expect(status).toEqual(parse(readFileSync(expected, "utf8")));
});

test("planning a second time with the first status changes nothing", () => {
  for (const name of cases) {
    const { model, hosts = [], inspection, cache }: Case = parse(readFileSync(new URL(name, FOLDER), "utf8"));
    const observe = (seen: Model) => ({
      model: seen,
      hosts,
      task: taskOf(seen),
      inspection,
      cache,
    });
    const first = planModelStatus(observe(model), NOW);
    expect(planModelStatus(observe({ ...model, status: first }), "2027-01-01T00:00:00Z")).toEqual(first);
  }
});

function model(more: Partial<Model["spec"]> = {}): Model {
  return {
    metadata: { name: "m", namespace: "n", uid: "u", generation: 1 },
    spec: {
      source: "hf://org/repo",
      refreshPolicy: "IfNotPresent",
      prefetch: false,
      hardware: { accelerator: "metal" },
      ...more,
    } as Model["spec"],
  };
}

const failure = (isTransient: boolean, retryAfterMs?: number): InspectionResult => ({
  at: "failed",
  code: "SourceUnreachable",
  message: "no",
  isTransient,
  retryAfterMs,
});
const found: Extract<InspectionResult, { at: "found" }> = {
  at: "found",
  found: {
    format: "gguf",
    files: ["m.gguf"],
    sizeBytes: 1,
    revision: "r",
    sha256: undefined,
    gguf: undefined,
    isChosen: false,
  },
};

const at0 = { nowMs: 0, random: 0 };
const watched = { ...at0, checkMs: 600_000 };

test("transient failures are retried after 5 s, doubling to 10 min; Retry-After wins, up to those 10 min", () => {
  let last = recordInspection(model(), undefined, failure(true), at0);
  expect(last.nextAtMs).toBe(5_000);
  last = recordInspection(model(), last, failure(true), at0);
  expect(last.nextAtMs).toBe(10_000);
  for (let round = 0; round < 50; round++) last = recordInspection(model(), last, failure(true), at0);
  expect(last.nextAtMs).toBe(600_000);
  expect(recordInspection(model(), last, failure(true, 7_000), at0).nextAtMs).toBe(7_000);
  expect(recordInspection(model(), last, failure(true, 3_600_000), at0).nextAtMs).toBe(600_000);
  expect(recordInspection(model(), last, failure(false), at0)).toMatchObject({ nextAtMs: 600_000 });
  expect(recordInspection(model(), last, found, at0)).toMatchObject({ failures: 0, nextAtMs: undefined });
});

test("a source is inspected once per spec, and again only when it is due", () => {
  expect(isInspectionDue(model(), undefined, 0)).toBe(true);
  const last = recordInspection(model(), undefined, failure(true), at0);
  expect(isInspectionDue(model(), last, 4_999)).toBe(false);
  expect(isInspectionDue(model(), last, 5_000)).toBe(true);
  const edited = { ...model(), metadata: { ...model().metadata, generation: 2 } };
  expect(isInspectionDue(edited, last, 0)).toBe(true);
  const done = recordInspection(model(), undefined, found, at0);
  expect(isInspectionDue(model(), done, 1e12)).toBe(false);
  expect(isInspectionDue(model(), recordInspection(model(), undefined, found, watched), 600_000)).toBe(true);
});

test("a source that changes at each check is checked less and less often, until it is stable", () => {
  const pinnedAs = (changeMarker: string): Model => ({
    ...model({ refreshPolicy: "OnChange" }),
    status: { pinned: { key: "k", changeMarker } },
  });
  const delays: (number | undefined)[] = [];
  let last = recordInspection(model({ refreshPolicy: "OnChange" }), undefined, marked("0"), watched);
  delays.push(last.nextAtMs);
  for (let round = 1; round < 10; round++) {
    last = recordInspection(pinnedAs(String(round - 1)), last, marked(String(round)), watched);
    delays.push(last.nextAtMs);
  }
  const minutes = delays.map((delay = 0) => delay / 60_000);
  expect(minutes).toEqual([10, 10, 20, 40, 80, 160, 320, 640, 640, 640]);
  last = recordInspection(pinnedAs("9"), last, failure(true), watched);
  expect(last).toMatchObject({ changes: 9, nextAtMs: 5_000 });
  last = recordInspection(pinnedAs("9"), last, { at: "unstable" }, watched);
  expect(last).toMatchObject({ changes: 10, nextAtMs: 640 * 60_000 });
  last = recordInspection(pinnedAs("9"), last, { at: "unchanged", checkedAt: NOW }, watched);
  expect(last).toMatchObject({ changes: 0, nextAtMs: 600_000 });
});

test("a new leader inspects only unknown sources", () => {
  const status = { phase: "Ready" as const, observedGeneration: 1, files: ["m.gguf"] };
  expect(isInspectionDue({ ...model(), status }, undefined, 0)).toBe(false);
  expect(isInspectionDue({ ...model(), status: { ...status, observedGeneration: 0 } }, undefined, 0)).toBe(
    true,
  );
});

test("a new leader spreads the checks of known sources, and checks unpinned ones immediately", () => {
  const status = { phase: "Ready" as const, observedGeneration: 1, files: ["m.gguf"] };
  const known = { ...model({ refreshPolicy: "OnChange" }), status };
  expect(firstRecord(known, 600_000, 5, 0.5)).toMatchObject({ nextAtMs: 5, result: undefined });
  const pinned = { ...known, status: { ...status, pinned: { key: "k", changeMarker: "m" } } };
  expect(firstRecord(pinned, 600_000, 5, 0.5)).toMatchObject({ nextAtMs: 300_005 });
  expect(firstRecord(pinned, undefined, 5, 0.5)).toBeUndefined();
  expect(firstRecord(model({ refreshPolicy: "OnChange" }), 600_000, 5, 0.5)).toBeUndefined();
});

const commit = "c".repeat(40);
const chosen = (revision = commit): InspectionResult => ({
  at: "found",
  found: { ...found.found, files: ["m-Q4.gguf"], revision, isChosen: true },
});

function statusOf(observed: Model, inspection: InspectionResult | undefined) {
  const task = classifyModel(observed);
  return planModelStatus({ model: observed, hosts: [], task, inspection }, NOW);
}

test("a new Model pins its commit, and the file that its quantization chose", () => {
  expect(statusOf(model({ quantization: "Q4" }), chosen()).pinned).toMatchObject({
    file: "m-Q4.gguf",
    revision: commit,
  });
  const only: InspectionResult = { at: "found", found: { ...found.found, revision: commit } };
  expect(statusOf(model(), only).pinned).toEqual({ key: expect.any(String), revision: commit });
  expect(statusOf(model(), found).pinned).toBeUndefined();
});

test("a pin outlives outages and newer commits, and is removed when the spec chooses other files", () => {
  const base = model({ quantization: "Q4" });
  const status = statusOf(base, chosen());
  const { pinned } = status;
  for (const inspection of [failure(true), failure(false), undefined, chosen("d".repeat(40))])
    expect(statusOf({ ...base, status }, inspection).pinned).toEqual(pinned);
  const resized = { ...model({ quantization: "Q4", prefetch: true }), status };
  expect(statusOf(resized, undefined).pinned).toEqual(pinned);
  expect(statusOf({ ...model({ quantization: "Q8" }), status }, failure(true)).pinned).toBeUndefined();
});

function marked(changeMarker: string, revision?: string): InspectionResult {
  const mark = revision === undefined ? { changeMarker } : { changeMarker, revision };
  return { ...found, watched: { at: "marked", mark, checkedAt: NOW } };
}

test("OnChange pins what the source has, and pins something else only when its content changed", () => {
  const base = model({ refreshPolicy: "OnChange" });
  const first = statusOf(base, marked("m1", commit));
  expect(first).toMatchObject({
    pinned: { changeMarker: "m1", revision: commit },
    shortRevision: commit.slice(0, 12),
    checkedAt: NOW,
    changedAt: NOW,
  });
  const later = {
    ...base,
    status: { ...first, changedAt: "2026-01-01T00:00:00Z", checkedAt: "2026-01-01T00:00:00Z" },
  };
  for (const same of [marked("m1", "d".repeat(40)), { at: "unchanged", checkedAt: NOW } as const])
    expect(statusOf(later, same)).toMatchObject({
      pinned: first.pinned,
      checkedAt: NOW,
      changedAt: "2026-01-01T00:00:00Z",
    });
  expect(statusOf(later, marked("m2", "d".repeat(40)))).toMatchObject({
    pinned: { changeMarker: "m2", revision: "d".repeat(40) },
    changedAt: NOW,
  });
  expect(statusOf(later, marked("m3"))).toMatchObject({
    pinned: { changeMarker: "m3" },
    shortRevision: "m3",
  });
});

test("a check that fails or finds no stable content is reported, and the pin stays", () => {
  const base = model({ refreshPolicy: "OnChange" });
  const status = statusOf(base, marked("m1"));
  const conditionOf = (of: typeof status) => of.conditions?.find(({ type }) => type === "SourceChecked");
  expect(conditionOf(status)).toMatchObject({ status: "True" });
  for (const [inspection, reason] of [
    [failure(true), "SourceUnreachable"],
    [failure(false), "SourceUnreachable"],
    [{ at: "unstable" }, "SourceUnstable"],
  ] as const) {
    const now = statusOf({ ...base, status }, inspection);
    expect(now).toMatchObject({ phase: "Ready", pinned: status.pinned, checkedAt: NOW });
    expect(conditionOf(now)).toMatchObject({ status: "False", reason });
    expect(conditionOf(statusOf({ ...base, status: now }, undefined))).toMatchObject({ reason });
  }
  const unstable: InspectionResult = { ...found, watched: { at: "unstable" } };
  const fresh = statusOf(base, unstable);
  expect(fresh).toMatchObject({ phase: "Ready" });
  expect(fresh.pinned).toBeUndefined();
  expect(conditionOf(fresh)).toMatchObject({ status: "False", reason: "SourceUnstable" });
  expect(statusOf({ ...base, status }, unstable).pinned).toEqual(status.pinned);
  expect(conditionOf(statusOf(model(), found))).toBeUndefined();
});

test("OnChange reports sources whose versions cannot be distinguished", () => {
  const messageOf = (spec: Partial<Model["spec"]>) =>
    statusOf(model({ refreshPolicy: "OnChange", ...spec }), undefined).conditions?.find(
      ({ type }) => type === "SpecHonored",
    )?.message;
  expect(messageOf({ source: "/models/m.gguf" })).toContain("reads the file in place");
  expect(messageOf({ source: "ollama://tiny:1" })).toContain("set spec.format: gguf");
  expect(messageOf({ source: "hf://org/repo" })).toBe("");
});

test("a refused Model keeps its pin, and so its content once it is accepted again", () => {
  const base = model();
  const only: InspectionResult = { at: "found", found: { ...found.found, revision: commit } };
  const status = statusOf(base, only);
  const code = "ModelCacheAmbiguous";
  const task = classifyModel(base, { at: "refused", code, message: "" });
  const of = { ...base, status };
  const refused = planModelStatus({ model: of, hosts: [], task, inspection: undefined }, NOW);
  expect(refused).toMatchObject({ reason: code, pinned: status.pinned });
  const later = { ...only, found: { ...only.found, revision: "d".repeat(40) } };
  expect(statusOf({ ...base, status: refused }, later).pinned).toEqual(status.pinned);
});

test("a host that has another quantization of the repository has no copy", () => {
  const host = (name: string, sha256: string) =>
    ({ metadata: { name }, status: { models: [{ source: "hf://org/m", sha256 }] } }) as Host;
  const hosts = [host("q4", "4".repeat(64)), host("q8", "8".repeat(64))];
  const of = model({ source: "hf://org/m", quantization: "Q8_0" });
  const namesWith = (sha256: string | undefined) => {
    const inspection: InspectionResult = { at: "found", found: { ...found.found, sha256 } };
    const task = taskOf(of);
    return planModelStatus({ model: of, hosts, task, inspection }, NOW).hosts?.map(({ name }) => name);
  };
  expect(namesWith("8".repeat(64))).toEqual(["q8"]);
  expect(namesWith(undefined)).toEqual(["q4", "q8"]);
});

test("a Model for pods that fetch the weights themselves is Ready in a format that no host runs", () => {
  const forPods = model({ hardware: { accelerator: "cuda" } });
  const ephemeral = { spec: { placement: {}, modelCache: { persistence: "Ephemeral" } } };
  const task = classifyModel(forPods, desiredCacheOf(forPods, [ephemeral as InferenceService], settings));
  const found = { files: ["a.safetensors"], format: "safetensors" as const, isChosen: false };
  const inspection: InspectionResult = {
    at: "found",
    found: {
      ...{ ...found, sizeBytes: 5, revision: undefined, sha256: undefined, gguf: undefined },
      quantization: "awq-4bit",
    },
  };
  const status = planModelStatus({ model: forPods, hosts: [], task, inspection }, NOW);
  expect(status).toMatchObject({
    ...{ phase: "Ready", message: expect.stringContaining("each pod") },
    quantization: "awq-4bit",
  });
});

const SUM = "a".repeat(64);
const OTHER = "b".repeat(64);

test.each<[string, Partial<Inspected>, object]>([
  ["another one", { mainSha256: OTHER, sha256: OTHER }, { phase: "Failed", reason: "ChecksumMismatch" }],
  [
    "another one for the first of many files",
    { files: ["m-1.gguf", "m-2.gguf"], mainSha256: OTHER },
    {
      phase: "Failed",
      reason: "ChecksumMismatch",
      message: expect.stringMatching(/b{64} for m-1.gguf, .*a{64}/),
    },
  ],
  ["the same one", { mainSha256: SUM, sha256: SUM }, { phase: "Ready", sha256: SUM }],
  [
    "none",
    {},
    {
      phase: "Ready",
      message: expect.stringMatching(/states no checksum, so spec.sha256 is verified after the/),
    },
  ],
])("spec.sha256 is compared before anything is downloaded: the source states %s", (_, listed, expected) => {
  const of = model({ sha256: SUM.toUpperCase() });
  const observed = { model: of, hosts: [], task: taskOf(of) };
  const status = planModelStatus(
    { ...observed, inspection: { ...found, found: { ...found.found, ...listed } } },
    NOW,
  );
  expect(status).toMatchObject(expected);
  if (status.phase === "Failed") return;
  // A new leader reads no source again.
  const later = { ...observed, model: { ...of, status }, inspection: undefined };
  expect(planModelStatus(later, NOW).message).toBe(status.message);
});

test("a Model whose volume is not bound yet has the facts of its source, and keeps them and its commit for the Job", () => {
  const of = model({ hardware: { accelerator: "cuda" } });
  const desired = desiredCacheOf(of, [], settings);
  const cache = {
    phase: "Pending",
    reason: "BindingClaim",
    message: "",
    claimName: "c",
    folder: "f",
  } as const;
  const commit = "c".repeat(40);
  const undecided = planModelStatus(
    {
      model: of,
      hosts: [],
      task: classifyModel(of, desired, "undecided"),
      inspection: { ...found, found: { ...found.found, revision: commit } },
      cache: { status: cache, isUndecided: true },
    },
    NOW,
  );
  const facts = { files: ["m.gguf"], sizeBytes: 1, pinned: { revision: commit } };
  expect(undecided).toMatchObject({ phase: "Pending", reason: "BindingClaim", ...facts });
  const read = { ...of, status: undecided };
  expect(isInspectionDue(read, undefined, 0)).toBe(false);
  const byJob = { status: { ...cache, key: "k", reason: "StartingDownload" } };
  const task = classifyModel(read, desired, "Job");
  expect(
    planModelStatus({ model: read, hosts: [], task, inspection: undefined, cache: byJob }, NOW),
  ).toMatchObject({
    phase: "Pending",
    reason: "StartingDownload",
    ...facts,
  });
});

test("a file on a host is Unknown until a service has served it, and a missing file is reported", () => {
  const onDisk = model({ source: "file:///models/m.gguf" });
  const statusWith = (status: InferenceService["status"], of = onDisk) =>
    planModelStatus(
      {
        model: of,
        hosts: [],
        task: taskOf(of),
        inspection: undefined,
        services: [{ metadata: { name: "chat" }, spec: { modelRef: "m" }, status } as InferenceService],
      },
      NOW,
    );
  const shown = (status: ModelStatus) =>
    status.conditions
      ?.filter(({ type }) => type === "Ready" || type === "Degraded")
      .map(({ type, status: is, reason }) => `${type} ${is} ${reason}`);
  const before = statusWith(undefined);
  expect(before).toMatchObject({ phase: "Pending", reason: "ReadByHost", files: ["m.gguf"] });
  expect(shown(before)).toEqual(["Degraded False ReadByHost", "Ready Unknown ReadByHost"]);
  const missing = statusWith({ reason: "SourceNotFound", message: "/models/m.gguf does not exist" });
  expect(shown(missing)).toEqual(["Degraded True SourceNotFound", "Ready Unknown ReadByHost"]);
  expect(shown(statusWith({ reason: "CrashLoop", message: "" }))).toEqual(shown(before));
  const served = statusWith({ readyReplicas: 1 });
  expect(served).toMatchObject({ phase: "Ready", reason: "FileServed" });
  expect(shown(served)).toEqual(["Degraded False FileServed", "Ready True FileServed"]);
  expect(served.message).toBe("a host has served the file from its own disk");
  const inPods = statusWith({ readyReplicas: 1, on: "Pods" });
  expect(inPods).toMatchObject({ reason: "FileServed", message: expect.stringMatching(/^a pod has served/) });
  expect(statusWith({}, { ...onDisk, status: inPods }).message).toBe(inPods.message);
  // Scaled to zero: what was seen stays, for this spec.
  expect(statusWith({}, { ...onDisk, status: served })).toMatchObject({ phase: "Ready" });
  const edited = { ...onDisk, metadata: { ...onDisk.metadata, generation: 2 }, status: served };
  expect(statusWith({}, edited)).toMatchObject({ phase: "Pending" });
});

test("a file that pods also name is served by hosts, and the Model says that pods cannot use it", () => {
  const onDisk = model({ source: "file:///models/m.gguf" });
  const services = ["Hosts", "Pods"].map(
    (on) =>
      ({
        metadata: { name: on.toLowerCase() },
        spec: { modelRef: "m", placement: { on } },
      }) as InferenceService,
  );
  const task = classifyModel(onDisk, desiredCacheOf(onDisk, services, settings));
  const observed = { model: onDisk, hosts: [], task, inspection: undefined };
  const statusWith = (status: InferenceService["status"]) =>
    planModelStatus({ ...observed, services: services.map((one) => ({ ...one, status })) }, NOW);
  for (const [status, phase] of [
    [undefined, "Pending"],
    [{ readyReplicas: 1 }, "Ready"],
  ] as const) {
    const planned = statusWith(status);
    expect(planned.phase).toBe(phase);
    expect(planned.conditions?.find(({ type }) => type === "Degraded")).toMatchObject({
      status: "True",
      reason: "SourceNotSupported",
      message: expect.stringMatching(
        /^services in pods cannot use the Model: pods cannot fetch file:\/\/ sources, .*pods\.hostPaths/,
      ),
    });
  }
});
