/** Manifests in examples/ and in the pages hold only fields that exist, and that Macs honor. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import type { z } from "zod";
import { buildGroup } from "../../controller/pods/workload/group.ts";
import { buildWorkload } from "../../controller/pods/workload/workload.ts";
import { backendRuntimeSchema } from "../../src/api/backend-runtime.ts";
import { API_VERSION } from "../../src/api/group.ts";
import { hostSchema } from "../../src/api/host.ts";
import { inferenceReplicaSchema } from "../../src/api/inference-replica.ts";
import { inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { allModelsOf } from "../../src/api/inference-service/roles.ts";
import { modelSchema } from "../../src/api/model.ts";
import { withBackend } from "../../src/capacity/backend.ts";
import { unhonoredFields } from "../../src/capacity/honored.ts";
import { builtInBackends } from "../../src/engines/built-in-backends.ts";
import { ENGINES } from "../../src/engines/registry.ts";
import {
  documentedManifests,
  exampleManifests,
  exampleTexts,
  NO_MANIFESTS,
  yamlBlocks,
} from "./manifests.ts";
import { repositoryFiles, root } from "./pages.ts";

const schemas = new Map<string, z.ZodType>([
  ["Model", modelSchema],
  ["InferenceService", inferenceServiceSchema],
  ["InferenceReplica", inferenceReplicaSchema],
  ["Host", hostSchema],
  ["BackendRuntime", backendRuntimeSchema],
]);
const examples = exampleManifests();
const documented = documentedManifests();
const found = [...examples, ...documented].filter(({ object }) => object.apiVersion === API_VERSION);

test("there are manifests in examples and in pages", () => {
  expect(examples.length).toBeGreaterThan(10);
  expect(documented.length).toBeGreaterThan(2);
});

test.for([...exampleTexts(), ...yamlBlocks()])(
  "$where says the same in YAML 1.1, which kubectl reads",
  ({ text }) => {
    const read = (version: "1.1" | "1.2") => parseAllDocuments(text, { version }).map((one) => one.toJS());
    expect(read("1.1")).toEqual(read("1.2"));
  },
);

test.for(found)("$where: $object.kind has only fields that exist, with legal values", ({ object }) => {
  const schema = schemas.get(object.kind);
  const parsed: unknown = schema?.parse(object);
  expect(parsed).toBeDefined();
  const { metadata: _, ...rest } = object;
  expect(missingFrom(rest, parsed)).toEqual([]);
});

const all = found.filter(({ object }) => object.kind === "InferenceService");
const withBackends = all.filter(({ object }) => "backendRuntime" in (object.spec as object));
const services = all.filter((one) => !withBackends.includes(one));
const isForPods = ({ where }: { readonly where: string }) => where.startsWith("examples/linux/");

test.for(services.filter((one) => !isForPods(one)))(
  "$where: the service is honored in full on a host",
  ({ object }) => {
    const { spec } = inferenceServiceSchema.parse(object);
    expect(unhonoredFields(spec, "Hosts", spec.runtime ?? "llamacpp")).toEqual([]);
  },
);

test.for(services.filter(isForPods))(
  "$where: the service is honored in full in pods",
  ({ object, where }) => {
    const service = inferenceServiceSchema.parse(object);
    const { spec } = service;
    const runtime = spec.runtime ?? "llamacpp";
    expect(unhonoredFields(spec, "Pods", runtime)).toEqual([]);
    const named = found.find((one) => one.where === where && one.object.metadata.name === spec.modelRef);
    const weights = { claimName: "cache", folder: "k", file: "m" };
    const input = {
      service,
      model: modelSchema.parse(named?.object),
      runtime,
      weights,
      replicas: spec.replicas,
    };
    const settings = { images: {} };
    if (spec.group === undefined)
      expect(buildWorkload({ ...input, settings }).deployment.kind).toBe("Deployment");
    else expect(buildGroup({ ...input, settings }).group.kind).toBe("LeaderWorkerSet");
  },
);

const backends = new Map(
  [...found.map(({ object }) => object), ...builtInBackends()]
    .filter(({ kind }) => kind === "BackendRuntime")
    .map((object) => [object.metadata.name, backendRuntimeSchema.parse(object).spec]),
);

test.for(withBackends)(
  "$where: $object.metadata.name is honored in full with its BackendRuntime",
  ({ object }) => {
    const { spec } = inferenceServiceSchema.parse(object);
    const name = spec.backendRuntime?.name ?? "";
    const backend = backends.get(name);
    if (backend === undefined) throw new Error(`no manifest has BackendRuntime ${name}`);
    const on = spec.placement.on === "Hosts" || backend.image === undefined ? "Hosts" : "Pods";
    const use = { on, format: backend.formats?.[0] ?? "gguf" } as const;
    expect(unhonoredFields(withBackend(spec, { name, spec: backend }, use), on, backend.engine)).toEqual([]);
  },
);

test("every runtime that runs in pods has an example", () => {
  const shown = new Set(
    services.filter(isForPods).map(({ object }) => (object.spec as { runtime: string }).runtime),
  );
  const inPods = ENGINES.filter(({ pod }) => pod !== undefined).map(({ runtime }) => runtime);
  expect([...shown].sort()).toEqual([...inPods].sort());
});

test("every service of an example names a Model of the same folder", () => {
  const models = new Set(
    examples.flatMap(({ where, object }) =>
      object.kind === "Model" ? [`${path.dirname(where)} ${object.metadata.name}`] : [],
    ),
  );
  for (const { where, object } of examples) {
    if (object.kind !== "InferenceService") continue;
    const names = allModelsOf(inferenceServiceSchema.parse(object).spec);
    for (const name of names) expect(models, where).toContain(`${path.dirname(where)} ${name}`);
  }
});

test.for(repositoryFiles("examples/**/*.yaml"))("%s says in its first line what it shows", (file) => {
  const [first, second] = readFileSync(path.join(root, file), "utf8").split("\n");
  expect(first).toMatch(/^# \S.{20,}$/);
  if (!NO_MANIFESTS.some((folder) => file.startsWith(folder))) expect(second).toMatch(/^apiVersion: /);
});

test("a field that does not exist is noticed", () => {
  const object = { spec: { modelRef: "m", replica: 2, endpoint: { prot: 1 } } };
  const parsed = { spec: { modelRef: "m", replicas: 1, endpoint: { port: 8080 } } };
  expect(missingFrom(object, parsed)).toEqual(["spec.replica", "spec.endpoint.prot"]);
});

/** Paths that were written and that the schema dropped. */
function missingFrom(written: unknown, parsed: unknown, at = ""): readonly string[] {
  if (typeof written !== "object" || written === null) return [];
  return Object.entries(written).flatMap(([key, value]) => {
    const here = at === "" ? key : `${at}.${key}`;
    const known = typeof parsed === "object" && parsed !== null && key in parsed;
    return known ? missingFrom(value, Reflect.get(parsed, key), here) : [here];
  });
}
