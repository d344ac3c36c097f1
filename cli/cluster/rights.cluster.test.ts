/** The roles of examples/rbac/operator.yaml are enough for every verb, and the first of them for those that only look. */
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { parse, parseAllDocuments, stringify } from "yaml";
import { INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { CLUSTER_ROLES } from "../../src/kube/kinds.ts";
import type { KubeObject } from "../../src/kube/types.ts";
import { writeAccountKubeconfig } from "../../test/bed/identity.ts";
import { until } from "../../test/bed/until.ts";
import { openDesk } from "../../test/cli/objects.ts";
import { runVerb } from "../../test/cli/program.ts";
import type { TestCluster } from "../../test/cluster/cluster.ts";
import { root } from "../../test/docs/pages.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";

const RBAC = "rbac.authorization.k8s.io";

/** The API server learns of new bindings by a watch, so that they hold a moment after they were created. */
function untilAllowed(
  { objects }: TestCluster,
  ...asked: readonly [user: string, verb: string, resource: string, namespace?: string]
): Promise<void> {
  return until(async () => expect(await objects.may(...asked), asked.join(" ")).toBe(true));
}

async function applyRoles({ objects }: TestCluster): Promise<void> {
  const text = await readFile(path.join(root, "examples/rbac/operator.yaml"), "utf8");
  await objects.apply(...parseAllDocuments(text).map((document) => document.toJS()));
}

function binding(
  kind: "ClusterRoleBinding" | "RoleBinding",
  metadata: object,
  role: string,
  ...to: object[]
) {
  const roleRef = { apiGroup: RBAC, kind: "ClusterRole", name: role };
  return { apiVersion: `${RBAC}/v1`, kind, metadata, roleRef, subjects: to };
}

test("viewers look, operators act, and neither needs more", async () => {
  await using desk = await openDesk();
  await using folder = await temporaryFolder();
  const { namespace, cluster } = desk;
  await applyRoles(cluster);
  const accountOf = async (name: string, roles: readonly string[]) => {
    await cluster.objects.create({ apiVersion: "v1", kind: "ServiceAccount", metadata: { name, namespace } });
    const subject = { kind: "ServiceAccount", name, namespace };
    for (const role of roles) {
      const metadata = { name: `${namespace}-${name}-${role}` };
      await cluster.objects.create(binding("ClusterRoleBinding", metadata, role, subject));
    }
    const kubeconfig = path.join(folder.path, name);
    await writeAccountKubeconfig(cluster, { name, namespace, file: kubeconfig });
    return { kubeconfig };
  };
  const viewer = await accountOf("viewer", ["metalbridge-viewer"]);
  const operator = await accountOf("operator", ["metalbridge-viewer", "metalbridge-operator"]);
  const account = `system:serviceaccount:${namespace}`;
  await untilAllowed(cluster, `${account}:viewer`, "list", "hosts.metalbridge.dev");
  await untilAllowed(cluster, `${account}:operator`, "list", "hosts.metalbridge.dev");
  await untilAllowed(cluster, `${account}:operator`, "patch", "hosts.metalbridge.dev");
  const host = await desk.host();
  await desk.service("chat");
  await desk.replica("chat-0-abcdefgh12", host);
  await desk.status(INFERENCE_SERVICES, "chat", {
    observedGeneration: 1,
    desiredReplicas: 1,
    replicas: 1,
    updatedReplicas: 1,
    readyReplicas: 1,
  });

  const inNamespace = ["-n", namespace];
  const looks = [
    ["host", "list"],
    ["describe", "chat", ...inNamespace],
    ["describe", "chat-0-abcdefgh12", ...inNamespace],
    ["describe", "host", host],
    ["rollout", "status", "chat", ...inNamespace],
    ["rollout", "history", "chat", ...inNamespace],
  ];
  for (const args of looks) {
    const { code, stderr } = await runVerb(args, viewer);
    expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: "" });
  }
  const denied = await runVerb(["cordon", host], viewer);
  expect(denied).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^ApiForbidden: cannot patch Host/),
  });
  for (const args of [
    ["cordon", host],
    ["drain", host, "--wait=false"],
    ["uncordon", host],
    ["host", "lost", host, "--yes"],
  ]) {
    expect({ args, code: (await runVerb(args, operator)).code }).toEqual({ args, code: 0 });
  }
  const undo = await runVerb(["rollout", "undo", "chat", ...inNamespace], operator);
  expect(undo.stderr).toMatch(/^RevisionNotFound: service chat has no earlier revision/);
  const drain = await runVerb(["drain", host, "--timeout", "1s"], operator);
  expect(drain.stderr).toMatch(/^DrainNotFinished: /);
});

test("the roles of the chart let a namespace's users run services, and operators may scale them and read Events", async () => {
  await using desk = await openDesk();
  const { namespace, cluster } = desk;
  await desk.service("chat");
  // kube-controller-manager, which this cluster lacks, would add what carries the label to the built-in role.
  const roleFor = async (builtIn: "view" | "edit"): Promise<string> => {
    const roles = await cluster.objects.list(CLUSTER_ROLES, `${RBAC}/aggregate-to-${builtIn}=true`);
    return roles.find(({ metadata }: KubeObject) => metadata.name.includes("metalbridge")).metadata.name;
  };
  const viewer = `${namespace}-viewer`;
  const editor = `${namespace}-editor`;
  for (const [role, users] of [
    [await roleFor("view"), [viewer, editor]],
    [await roleFor("edit"), [editor]],
  ] as const) {
    const subjects = users.map((name) => ({ apiGroup: RBAC, kind: "User", name }));
    await cluster.objects.create(binding("RoleBinding", { name: role, namespace }, role, ...subjects));
  }
  const services = "inferenceservices.metalbridge.dev";
  await untilAllowed(cluster, viewer, "get", services, namespace);
  await untilAllowed(cluster, editor, "get", services, namespace);
  await untilAllowed(cluster, editor, "create", services, namespace);
  const as = (user: string, ...args: string[]) => cluster.kubectl([...args, "-n", namespace, `--as=${user}`]);
  expect(await as(viewer, "get", services, "-o", "name")).toContain("chat");
  await as(editor, "scale", "inferenceservices.metalbridge.dev/chat", "--replicas=2");
  const create = ["create", "--dry-run=server", "-f", path.join(root, "examples/quickstart/model.yaml")];
  expect(await as(editor, ...create)).toContain("created");
  await expect(as(viewer, ...create)).rejects.toThrow(/forbidden/);

  await applyRoles(cluster);
  const operator = `${namespace}-operator`;
  const subject = { apiGroup: RBAC, kind: "User", name: operator };
  for (const role of ["metalbridge-viewer", "metalbridge-operator"])
    await cluster.objects.create(
      binding("ClusterRoleBinding", { name: `${namespace}-${role}` }, role, subject),
    );
  await untilAllowed(cluster, operator, "list", "events", namespace);
  await untilAllowed(cluster, operator, "patch", services, namespace);
  await as(operator, "scale", "inferenceservices.metalbridge.dev/chat", "--replicas=3");
  await as(operator, "get", "events");
});

test("a reader of one namespace sees what it may see of it, and what is missing", async () => {
  await using desk = await openDesk();
  await using folder = await temporaryFolder();
  const { namespace, cluster } = desk;
  const roles = await cluster.objects.list(CLUSTER_ROLES, `${RBAC}/aggregate-to-view=true`);
  const role = roles.find(({ metadata }: KubeObject) => metadata.name.includes("metalbridge")).metadata.name;
  const reader = { name: "reader", namespace };
  await cluster.objects.create({ apiVersion: "v1", kind: "ServiceAccount", metadata: reader });
  const to = { kind: "ServiceAccount", ...reader };
  await cluster.objects.create(binding("RoleBinding", { ...reader }, role, to));
  const account = `system:serviceaccount:${namespace}:reader`;
  for (const resource of ["inferenceservices", "inferencereplicas", "models"])
    await untilAllowed(cluster, account, "list", `${resource}.metalbridge.dev`, namespace);
  const kubeconfig = path.join(folder.path, "reader");
  await writeAccountKubeconfig(cluster, { ...reader, file: kubeconfig });
  const config = parse(await readFile(kubeconfig, "utf8"));
  for (const { context } of config.contexts) context.namespace = namespace;
  await writeFile(kubeconfig, stringify(config));
  await desk.host();
  await desk.service("chat");
  const head = { architecture: "llama", contextLength: 4096, layerCount: 2, embeddingSize: 64 };
  const gguf = {
    ...head,
    headCount: 2,
    headCountKV: 2,
    keyLength: 32,
    valueLength: 32,
    feedForwardLength: 128,
  };
  await cluster.objects.apply({
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "Model",
    metadata: { name: "tiny", namespace },
    spec: { source: "hf://org/model/model.gguf", hardware: { accelerator: "metal" } },
  });
  const known = { phase: "Ready", format: "gguf", weightsBytes: 4096, sizeBytes: 4096 };
  await desk.status(MODELS, "tiny", { ...known, gguf: { ...gguf, vocabularySize: 512 } });

  const noHosts = "hosts are not shown. You may not list hosts. Ask an administrator";
  const onlyOwn = `Only namespace ${namespace} is shown.`;
  for (const args of [["status"], ["top"]]) {
    const { code, stdout, stderr } = await runVerb(args, { kubeconfig });
    expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: "" });
    for (const text of [noHosts, onlyOwn, `${namespace}/chat`]) expect(stdout).toContain(text);
    expect(stdout).not.toMatch(/^HOST|no hosts/m);
    const json = JSON.parse((await runVerb([...args, "-o", "json"], { kubeconfig })).stdout);
    expect(json.hosts).toBeUndefined();
    expect(json.missing).toHaveLength(2);
    const elsewhere = await runVerb([...args, "-n", "default"], { kubeconfig });
    expect(elsewhere).toMatchObject({ code: 1, stderr: expect.stringMatching(/^ApiForbidden: cannot list/) });
  }
  await desk.replica("chat-0-abcdefgh12", "hidden");
  const report = await runVerb(["report"], { kubeconfig });
  expect(report).toMatchObject({ code: 0, stderr: "" });
  for (const text of ["## Not shown", noHosts, "nodes are not shown", onlyOwn, `${namespace}/chat`])
    expect(report.stdout).toContain(text);
  const figures = JSON.parse((await runVerb(["report", "-o", "json"], { kubeconfig })).stdout);
  expect(figures.nodes).toBeUndefined();
  expect(figures.models).toMatchObject([{ namespace, service: "chat", placedNode: "hidden" }]);

  await desk.status(MODELS, "tiny", { ...known, gguf, hosts: [{ name: "hidden", sizeBytes: 4096 }] });
  const stored = await runVerb(["models", "list", "--all-hosts"], { kubeconfig });
  expect(stored).toMatchObject({ code: 0, stdout: expect.stringMatching(/^hidden +hf:\/\/org\/model/m) });
  for (const text of [noHosts, onlyOwn]) expect(stored.stderr).toContain(text);

  const fit = await runVerb(["fit", "tiny"], { kubeconfig });
  expect(fit).toMatchObject({ code: 1, stderr: "" });
  for (const text of [noHosts, onlyOwn, "claim: ", "cannot tell where it fits"])
    expect(fit.stdout).toContain(text);
});
