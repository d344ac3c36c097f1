/** `metalbridge fit -f` and the answer 403 of the real API server: of someone who may not write, and of admission. */
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test, vi } from "vitest";
import { MODELS } from "../src/api/kinds.ts";
import { writeAccountKubeconfig } from "../test/bed/identity.ts";
import { until } from "../test/bed/until.ts";
import { type Desk, openDesk } from "../test/cli/objects.ts";
import { runVerb } from "../test/cli/program.ts";
import { startCluster } from "../test/cluster/cluster.ts";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";

const RBAC = "rbac.authorization.k8s.io";

/** A kubeconfig of an account that may read everything of ours and write services with these verbs. */
async function account(desk: Desk, folder: string, name: string, verbs: readonly string[]): Promise<string> {
  const { namespace, cluster } = desk;
  const resources = ["inferenceservices"];
  const rules = [
    { apiGroups: ["metalbridge.dev"], resources: ["*"], verbs: ["get", "list"] },
    ...(verbs.length === 0 ? [] : [{ apiGroups: ["metalbridge.dev"], resources, verbs }]),
  ];
  const apiVersion = `${RBAC}/v1`;
  const metadata = { name };
  const subjects = [{ kind: "ServiceAccount", name, namespace }];
  const roleRef = { apiGroup: RBAC, kind: "ClusterRole", name };
  await cluster.objects.apply(
    { apiVersion: "v1", kind: "ServiceAccount", metadata: { name, namespace } },
    { apiVersion, kind: "ClusterRole", metadata, rules },
    { apiVersion, kind: "ClusterRoleBinding", metadata, subjects, roleRef },
  );
  // The API server learns of new roles and bindings by a watch.
  const user = `system:serviceaccount:${namespace}:${name}`;
  await until(async () =>
    expect(await cluster.objects.may(user, "get", "models.metalbridge.dev")).toBe(true),
  );
  const file = path.join(folder, `${name}.kubeconfig`);
  await writeAccountKubeconfig(cluster, { name, namespace, file });
  return file;
}

async function writeManifest(desk: Desk, folder: string, spec: string): Promise<string> {
  const file = path.join(folder, "chat.yaml");
  const heads = { headCount: 2, headCountKV: 2, keyLength: 32, valueLength: 32 };
  const gguf = {
    ...heads,
    architecture: "llama",
    contextLength: 4096,
    layerCount: 2,
    embeddingSize: 64,
    feedForwardLength: 128,
    vocabularySize: 512,
  };
  await desk.cluster.objects.apply({
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "Model",
    metadata: { name: "tiny", namespace: desk.namespace },
    spec: { source: "hf://org/model/model.gguf", hardware: { accelerator: "metal" } },
  });
  await desk.status(MODELS, "tiny", {
    phase: "Ready",
    format: "gguf",
    weightsBytes: 4096,
    sizeBytes: 4096,
    gguf,
  });
  await writeFile(
    file,
    `apiVersion: metalbridge.dev/v1alpha1\nkind: InferenceService\nmetadata: { name: chat, namespace: ${desk.namespace} }\nspec: { modelRef: tiny, ${spec} }\n`,
  );
  return file;
}

const ask = (file: string, kubeconfig: string) => runVerb(["fit", "-f", file, "-o", "json"], { kubeconfig });

test("who may read and not write gets the answer from the file alone, and why", async () => {
  await using cluster = await startCluster();
  await using desk = await openDesk(cluster);
  await using folder = await temporaryFolder();
  const file = await writeManifest(desk, folder.path, "contextSize: 2048");
  const reader = await account(desk, folder.path, "reader", []);
  const unchecked = (verb: string) =>
    expect.stringMatching(
      new RegExp(`^not checked by the API server: .*User ".*:\\w+" cannot ${verb} resource`),
    );
  const { stdout, stderr } = await ask(file, reader);
  expect(stderr).toBe("");
  expect(JSON.parse(stdout)).toMatchObject({
    service: `${desk.namespace}/chat`,
    contextSize: 2048,
    notes: [unchecked("create")],
  });

  // A service that exists is asked about as a change of it, with that right and no other.
  await desk.service("chat", { "spec.modelRef": "tiny" });
  const creator = await account(desk, folder.path, "creator", ["create"]);
  const changer = await account(desk, folder.path, "changer", ["update"]);
  expect(JSON.parse((await ask(file, creator)).stdout).notes).toContainEqual(unchecked("update"));
  const asked = JSON.parse((await ask(file, changer)).stdout);
  expect(asked.contextSize).toBe(2048);
  expect(asked.notes).not.toContainEqual(expect.stringContaining("did not check"));
});

test("a policy or a quota that says 403 to who may write is a refusal, and no note", async () => {
  await using cluster = await startCluster();
  await using desk = await openDesk(cluster);
  await using folder = await temporaryFolder();
  const file = await writeManifest(desk, folder.path, "contextSize: 2048, priority: critical");
  const writer = await account(desk, folder.path, "writer", ["create", "update"]);
  const reader = await account(desk, folder.path, "reader", []);
  expect((await ask(file, writer)).stderr).toBe("");

  const apiVersion = "admissionregistration.k8s.io/v1";
  const metadata = { name: "no-critical" };
  const resourceRules = [
    {
      apiGroups: ["metalbridge.dev"],
      apiVersions: ["*"],
      resources: ["inferenceservices"],
      operations: ["CREATE", "UPDATE"],
    },
  ];
  const validations = [
    { expression: "object.spec.priority != 'critical'", message: "ask first", reason: "Forbidden" },
  ];
  const spec = { failurePolicy: "Fail", matchConstraints: { resourceRules }, validations };
  const binding = { policyName: metadata.name, validationActions: ["Deny"] };
  await cluster.objects.apply(
    { apiVersion, kind: "ValidatingAdmissionPolicy", metadata, spec },
    { apiVersion, kind: "ValidatingAdmissionPolicyBinding", metadata, spec: binding },
  );
  const refused = (what: RegExp) => ({ code: 1, stdout: "", stderr: expect.stringMatching(what) });
  await vi.waitFor(
    async () =>
      expect(await ask(file, writer)).toMatchObject(
        refused(/^ManifestInvalid: .*chat\.yaml: the API server refuses it: .*forbidden: .*ask first/),
      ),
    { timeout: 60_000, interval: 250 },
  );
  expect(JSON.parse((await ask(file, reader)).stdout).notes).toEqual([
    expect.stringContaining("not checked by the API server"),
  ]);

  await writeManifest(desk, folder.path, "contextSize: 2048");
  expect((await ask(file, writer)).stderr).toBe("");
  const hard = { "count/inferenceservices.metalbridge.dev": "0" };
  const quota = { name: "none", namespace: desk.namespace };
  await cluster.objects.apply({ apiVersion: "v1", kind: "ResourceQuota", metadata: quota, spec: { hard } });
  // As the controller manager would.
  const status = { hard, used: hard };
  await cluster.objects.patch(desk.namespace, "resourcequota/none", { status }, "status");
  await vi.waitFor(
    async () =>
      expect(await ask(file, writer)).toMatchObject(
        refused(/^ManifestInvalid: .*the API server refuses it: .*quota: none/),
      ),
    { timeout: 60_000, interval: 250 },
  );
});
