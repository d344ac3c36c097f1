/** Every object of every golden input and of every example is what the real API server takes, under the restricted level of Pod Security. */
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { beforeAll, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { packageRoot } from "../../../local/package-root.ts";
import { findMonitoringCrds } from "../../../scripts/setup/definitions.mjs";
import type { ModelFormat } from "../../../src/api/fields/shared.ts";
import { inferenceServiceSchema } from "../../../src/api/inference-service/index.ts";
import { modelSchema } from "../../../src/api/model.ts";
import { GGUF } from "../../../src/capacity/testing/models.ts";
import type { PodTemplate } from "../../../src/kube/workload-objects.ts";
import { oneCluster } from "../../../test/cluster/cluster.ts";
import type { GroupWorkload, Workload } from "./contract.ts";
import { inputOf, type WorkloadOptions } from "./fixtures/workload-input.ts";
import { buildGroup } from "./group.ts";
import { priorityClasses } from "./priorities.ts";
import { resolveGroups, resolvePods } from "./resolve.ts";
import { buildWorkload } from "./workload.ts";

const folder = new URL("./golden/", import.meta.url);
const inputs = readdirSync(folder).filter((name) => name.endsWith(".input.yaml"));
const monitoring: string | undefined = findMonitoringCrds();
const NAMESPACE = "team-a";

const cluster = oneCluster();
beforeAll(async () => {
  const { objects } = cluster();
  if (monitoring !== undefined)
    await objects.install(path.join(monitoring, "monitoring.coreos.com_podmonitors.yaml"));
  await objects.createNamespace(NAMESPACE, { "pod-security.kubernetes.io/enforce": "restricted" });
  await objects.apply(
    // A controller-manager would make it.
    { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "default", namespace: NAMESPACE } },
    // What the golden inputs name beside ours.
    { apiVersion: "scheduling.k8s.io/v1", kind: "PriorityClass", metadata: { name: "mine" }, value: 1 },
    { apiVersion: "node.k8s.io/v1", kind: "RuntimeClass", metadata: { name: "gvisor" }, handler: "runsc" },
    ...priorityClasses(),
  );
});

/** As the server would store it. Strict: a field that it does not know is an error. */
const tryOut = (object: object) => cluster().objects.create(object, { dryRun: true });

/** Pod Security judges pods: for a Deployment it would only warn. */
const podOf = ({ metadata, spec }: PodTemplate): object => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { ...metadata, name: "p", namespace: NAMESPACE },
  spec,
});

function goldenInput(name: string) {
  return inputOf(parse(readFileSync(new URL(name, folder), "utf8")) as WorkloadOptions);
}

async function expectTaken(rendered: Workload | GroupWorkload): Promise<void> {
  // The API server has no LeaderWorkerSet here.
  const { templates, ...rest } = "deployment" in rendered ? ofDeployment(rendered) : ofGroup(rendered);
  const { podMonitor, ...others } = rest;
  const all = [...Object.values(others), ...(monitoring === undefined ? [] : [podMonitor])];
  for (const object of [...all, ...templates.map(podOf)])
    if (object !== undefined) expect(await tryOut(object)).toHaveProperty("metadata.uid");
}

const ofDeployment = (workload: Workload) => ({
  templates: [workload.deployment.spec.template],
  ...workload,
});

const ofGroup = ({ group, ...workload }: GroupWorkload) => ({
  templates: [group.spec.leaderWorkerTemplate.leaderTemplate, group.spec.leaderWorkerTemplate.workerTemplate],
  ...workload,
});

test.for(inputs)("%s", async (name) => {
  const input = goldenInput(name);
  await expectTaken(input.service.spec.group === undefined ? buildWorkload(input) : buildGroup(input));
});

test("a mount of the node's disk is what Pod Security privileged takes, and baseline refuses with the volume's name", async () => {
  const { deployment } = buildWorkload(
    inputOf({
      service: {},
      model: { source: "file:///srv/models/m.gguf", hardware: { accelerator: "cpu" } },
      weights: { hostPath: "/srv/models", folder: "", file: "m.gguf" },
    }),
  );
  const { metadata = {}, spec } = deployment.spec.template;
  for (const level of ["privileged", "baseline"]) {
    const namespace = `node-${level}`;
    await cluster().objects.createNamespace(namespace, { "pod-security.kubernetes.io/enforce": level });
    const account = { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "default", namespace } };
    await cluster().objects.apply(account);
    const pod = { apiVersion: "v1", kind: "Pod", metadata: { ...metadata, name: "p", namespace }, spec };
    if (level === "privileged") expect(await tryOut(pod)).toHaveProperty("metadata.uid");
    else await expect(tryOut(pod)).rejects.toThrow(/violates PodSecurity "baseline.*hostPath.*node-0/);
  }
});

const EXAMPLES = path.join(packageRoot(), "examples/linux");

test.for(readdirSync(EXAMPLES))("examples/linux/%s", async (file) => {
  const written = parseAllDocuments(readFileSync(path.join(EXAMPLES, file), "utf8")).map((one) => one.toJS());
  const [first] = written.filter(({ kind }) => kind === "InferenceService");
  const found = written.find(
    ({ kind, metadata }) => kind === "Model" && metadata.name === first.spec.modelRef,
  );
  const format: ModelFormat = found.spec.format ?? "gguf";
  const cache = { phase: "Ready", reason: "Downloaded", message: "", claimName: "c", folder: "f", file: "m" };
  const facts = format === "gguf" ? { gguf: GGUF, sizeBytes: 2 ** 30, weightsBytes: 2 ** 30 } : {};
  const inNamespace = (name: string) => ({ name, namespace: NAMESPACE, uid: "5d1c" });
  const model = modelSchema.parse({
    ...found,
    metadata: inNamespace(found.metadata.name),
    status: { phase: "Ready", reason: "SourceResolved", format, files: ["m"], cache, ...facts },
  });
  const service = inferenceServiceSchema.parse({ ...first, metadata: inNamespace(first.metadata.name) });
  const resolve = service.spec.group === undefined ? resolvePods : resolveGroups;
  const resolution = resolve({ service, model, loraModels: [], settings: { images: {} } });
  if (resolution.at !== "resolved") throw new Error(JSON.stringify(resolution));
  await expectTaken(resolution.workload);
});

test("quantities are in the form that the server stores, so that no pass writes them again", async () => {
  const engines = [
    { cpu: "0.5", memory: "1024Mi", ephemeralStorage: "1.5G" },
    { cpu: "1000m", memory: "1.5Gi", ephemeralStorage: "2000" },
    { cpu: 2, memory: "1000Ki", ephemeralStorage: "0.5Ki" },
  ].map((resources) => {
    const model = { source: "hf://org/m/m.gguf", hardware: { accelerator: "cpu" } };
    const weights = { claimName: "cache", folder: "k", file: "m.gguf" };
    return buildWorkload(inputOf({ service: { resources }, model, weights, replicas: 1 })).deployment;
  });
  for (const desired of engines) {
    const stored = await tryOut(desired);
    const requests = ({ spec }: typeof desired) => spec.template.spec.containers[0]?.resources?.requests;
    expect(requests(stored)).toEqual(requests(desired));
  }
});

test.each([[{ privileged: true }], [{ capabilities: { add: ["CAP_SYS_ADMIN"] } }]])(
  "a pod with securityContext %j is one that the API server accepts",
  async (securityContext) => {
    const model = { source: "hf://org/m/m.gguf", hardware: { accelerator: "cpu" } };
    const weights = { claimName: "cache", folder: "k", file: "m.gguf" };
    const { deployment } = buildWorkload(
      inputOf({ service: { securityContext }, model, weights, replicas: 1 }),
    );
    expect(await tryOut(deployment)).toMatchObject({ metadata: { name: "chat" } });
  },
);

test("a restricted namespace rejects a pod that runs as root", async () => {
  const { template } = buildWorkload(goldenInput("llamacpp-cpu.input.yaml")).deployment.spec;
  const root = { ...template, spec: { ...template.spec, securityContext: { runAsUser: 0 } } };
  await expect(tryOut(podOf(root))).rejects.toThrow(/violates PodSecurity "restricted/);
});
