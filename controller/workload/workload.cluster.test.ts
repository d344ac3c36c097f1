/** Every object of every golden input is what the real API server takes, under the restricted level of Pod Security. */
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { findMonitoringCrds } from "../../scripts/setup/definitions.mjs";
import { type PrivateCluster, startCluster } from "../../test/cluster/cluster.ts";
import { inputOf, type WorkloadOptions } from "./fixtures/workload-input.ts";
import { buildGroup } from "./group.ts";
import { priorityClasses } from "./priorities.ts";
import { buildWorkload } from "./workload.ts";

const folder = new URL("./golden/", import.meta.url);
const inputs = readdirSync(folder).filter((name) => name.endsWith(".input.yaml"));
const monitoring: string | undefined = findMonitoringCrds();
const NAMESPACE = "team-a";

let cluster: PrivateCluster;
beforeAll(async () => {
  cluster = await startCluster({ crds: false });
  if (monitoring !== undefined) {
    const file = path.join(monitoring, "monitoring.coreos.com_podmonitors.yaml");
    await cluster.kubectl(["apply", "--server-side", "-f", file]);
    await cluster.kubectl(["wait", "--for=condition=Established", "-f", file]);
  }
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
  const metadata = { name: NAMESPACE, labels };
  await apply({ apiVersion: "v1", kind: "Namespace", metadata });
  // A controller-manager would make it.
  await apply({
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: { name: "default", namespace: NAMESPACE },
  });
  // What the golden inputs name beside ours.
  await apply({
    apiVersion: "scheduling.k8s.io/v1",
    kind: "PriorityClass",
    metadata: { name: "mine" },
    value: 1,
  });
  const handler = "runsc";
  await apply({ apiVersion: "node.k8s.io/v1", kind: "RuntimeClass", metadata: { name: "gvisor" }, handler });
  for (const one of priorityClasses()) await apply(one);
});
afterAll(() => cluster[Symbol.asyncDispose]());

function apply(object: object, ...more: string[]): Promise<string> {
  const args = ["apply", "--server-side", "--validate=strict", "-o", "name", "-f", "-", ...more];
  return cluster.kubectl(args, { input: JSON.stringify(object) });
}

function goldenInput(name: string) {
  return inputOf(parse(readFileSync(new URL(name, folder), "utf8")) as WorkloadOptions);
}

function workloadOf(name: string) {
  return buildWorkload(goldenInput(name));
}

/** The templates of the pods, and the other objects. The API server has no LeaderWorkerSet here. */
function renderedOf(name: string) {
  const input = goldenInput(name);
  if (input.service.spec.group === undefined) {
    const workload = buildWorkload(input);
    return { templates: [workload.deployment.spec.template], workload };
  }
  const { group, ...workload } = buildGroup(input);
  const { leaderTemplate, workerTemplate } = group.spec.leaderWorkerTemplate;
  return { templates: [leaderTemplate, workerTemplate], workload };
}

test.for(inputs)("%s", async (name) => {
  const { templates, workload: all } = renderedOf(name);
  const { podMonitor, ...workload } = all;
  const objects = [
    ...Object.values(workload).filter((object) => object !== undefined),
    ...(monitoring === undefined ? [] : [podMonitor ?? []].flat()),
  ];
  const said = await apply({ apiVersion: "v1", kind: "List", items: objects }, "--dry-run=server");
  expect(said.trim().split("\n")).toHaveLength(objects.length);
  // Pod Security judges pods: for a Deployment it would only warn.
  for (const { metadata, spec } of templates) {
    const pod = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { ...metadata, name: "p", namespace: NAMESPACE },
      spec,
    };
    expect(await apply(pod, "--dry-run=server")).toContain("pod/p");
  }
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
    const args = ["apply", "--server-side", "--dry-run=server", "-o", "json", "-f", "-"];
    const stored = JSON.parse(await cluster.kubectl(args, { input: JSON.stringify(desired) }));
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
    expect(await apply(deployment, "--dry-run=server")).toContain("deployment.apps/chat");
  },
);

test("a restricted namespace rejects a pod that runs as root", async () => {
  const { deployment } = workloadOf("llamacpp-cpu.input.yaml");
  const { metadata, spec } = deployment.spec.template;
  const privileged = { ...spec, securityContext: { runAsUser: 0 } };
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { ...metadata, name: "p", namespace: NAMESPACE },
    spec: privileged,
  };
  await expect(apply(pod, "--dry-run=server")).rejects.toThrow(/violates PodSecurity "restricted/);
});
