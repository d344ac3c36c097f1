/** `metalbridge fit` against the real API server; hosts and Models have the status that agent and controller would write. */
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test, vi } from "vitest";
import { HOSTS, MODELS } from "../src/api/kinds.ts";
import { type Desk, openDesk } from "../test/cli/objects.ts";
import { runVerb } from "../test/cli/program.ts";
import { oneCluster } from "../test/cluster/cluster.ts";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../test/fixtures/tiny-gguf.ts";

// Hosts and their number are what the tests are about, so no other file may have any here.
const cluster = oneCluster();
const GIB = 1024 ** 3;
const TRUE = {
  status: "True",
  reason: "AsExpected",
  message: "",
  lastTransitionTime: "2026-03-01T12:00:00Z",
};

async function host(
  desk: Desk,
  gib: number,
  spec: Record<string, unknown> = {},
  runtimes: readonly string[] = ["llamacpp"],
): Promise<string> {
  const name = await desk.host(spec);
  await desk.status(HOSTS, name, {
    conditions: ["Ready", "Reachable"].map((type) => ({ type, ...TRUE })),
    runtimes: runtimes.map((runtime) => ({ name: runtime })),
    memory: { totalBytes: (gib + 16) * GIB, gpuBudgetBytes: gib * GIB },
  });
  return name;
}

/** An 8-billion model at 8 bits: its cache takes 16 GiB at 131,072 tokens. */
async function model(desk: Desk, name: string): Promise<void> {
  const spec = { source: "hf://org/model/model.gguf", hardware: { accelerator: "metal" } };
  const object = {
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "Model",
    metadata: { name, namespace: desk.namespace },
    spec,
  };
  await desk.cluster.objects.create(object);
  const gguf = {
    architecture: "llama",
    contextLength: 131_072,
    embeddingSize: 4096,
    layerCount: 32,
    headCount: 32,
    headCountKV: 8,
    keyLength: 128,
    valueLength: 128,
  };
  await desk.status(MODELS, name, {
    phase: "Ready",
    format: "gguf",
    weightsBytes: 8 * GIB,
    sizeBytes: 8 * GIB,
    gguf,
  });
}

test("each host says whether it fits, what would make it fit, and what would be preempted", async () => {
  await using desk = await openDesk(cluster());
  const large = await host(desk, 64);
  const small = await host(desk, 16);
  const cordoned = await host(desk, 96, { "spec.unschedulable": true });
  await model(desk, "llama");
  await desk.service("low", { "spec.priority": "low" });
  const { objects } = desk.cluster;
  const { uid } = (await objects.get(desk.namespace, "isvc/low")).metadata;
  const running = await desk.replica("low-0", large);
  await objects.remove(desk.namespace, "irep/low-0");
  const { metadata: _, status: __, ...rest } = running;
  const replica = {
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "InferenceReplica",
    ...rest,
    metadata: { name: "low-0", namespace: desk.namespace },
    spec: {
      ...rest.spec,
      template: { ...rest.spec.template, serviceName: "low", serviceUid: uid },
      memory: { claimBytes: 50 * GIB },
    },
  };
  await objects.create(replica);

  const args = ["fit", "llama", "-n", desk.namespace, "--context", "131072", "--slots", "4"];
  const { code, stdout } = await runVerb([...args, "--output", "json"], desk);
  expect(code).toBe(1);
  const answer = JSON.parse(stdout);
  expect(answer.claim.kvBytes).toBe(16 * GIB);
  expect(answer).not.toHaveProperty("choice");
  const [first, second, third] = answer.hosts;
  expect(first).toMatchObject({
    host: small,
    fits: false,
    code: "HostMemoryShort",
    message: expect.stringMatching(/^needs 2\d(\.\d)? GiB, 16 GiB of 16 GiB left$/),
    leftBytes: 16 * GIB,
  });
  expect(first).not.toHaveProperty("evicts");
  expect(second).toMatchObject({
    host: large,
    leftBytes: 14 * GIB,
    evicts: [{ service: `${desk.namespace}/low`, bytes: 50 * GIB }],
  });
  expect(third).toMatchObject({ host: cordoned, code: "HostCordoned", message: "cordoned" });
  const [slots] = second.helps.filter(({ change }: { change: object }) => "parallelSlots" in change);
  expect(slots.change.contextSize / slots.change.parallelSlots).toBe(32_768);

  // What is suggested does fit, and a little more does not.
  const { contextSize } = first.helps.find(
    ({ change }: { change: object }) => Object.keys(change).join() === "contextSize",
  ).change;
  const smaller = (context: number) =>
    runVerb(
      ["fit", "llama", "-n", desk.namespace, "--context", String(context), "--slots", "4", "-o", "json"],
      desk,
    );
  const fitting = JSON.parse((await smaller(contextSize)).stdout);
  expect(fitting.hosts).toContainEqual(expect.objectContaining({ host: small, fits: true }));
  const above = JSON.parse((await smaller(contextSize + 1024)).stdout);
  expect(above.hosts).toContainEqual(expect.objectContaining({ host: small, fits: false }));

  const table = await runVerb(args, desk);
  expect(table.stdout).toMatch(
    /^llama on llamacpp, 131072 tokens in 4 slots, priority normal\nclaim: 2.* GiB = weights 8 GiB \+ KV cache 16 GiB/,
  );
  expect(table.stdout).toContain("fits on none of 3 hosts now");
  expect(table.stdout).toMatch(new RegExp(`preempts ${desk.namespace}/low \\(50 GiB\\)`));
});

test("names the runtime that would be chosen, and where no host has it, how to install it", async () => {
  await using desk = await openDesk(cluster());
  await model(desk, "llama");
  const askFit = (...more: string[]) => runVerb(["fit", "llama", "-n", desk.namespace, ...more], desk);
  await host(desk, 64, {}, ["other"]);
  const none = await askFit();
  expect(none).toMatchObject({ code: 1, stdout: expect.stringMatching(/^llama on llamacpp, /) });
  expect(none.stdout).toContain(
    "fits on none of 1 hosts now\nno host has llamacpp (install: brew install llama.cpp)\n",
  );
  const other = await host(desk, 64, {}, ["ollama"]);
  const chosen = await askFit("--output", "json");
  expect(JSON.parse(chosen.stdout)).toMatchObject({ runtime: "ollama", choice: { host: other } });
});

test("a file, a manifest, and a manifest that changes by flags", async () => {
  await using desk = await openDesk(cluster());
  await using folder = await temporaryFolder();
  const name = await host(desk, 64);
  const file = path.join(folder.path, "Tiny Model.gguf");
  await writeTinyGguf(file);
  const ofFile = await runVerb(["fit", file], desk);
  expect(ofFile).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^tiny-model \(F32\) on llamacpp, 4096 tokens in 1 slot/),
  });
  expect(ofFile.stdout).toContain(`it would go to ${name}: spread 1.00`);

  await model(desk, "llama");
  const manifest = path.join(folder.path, "chat.yaml");
  const spec = (fields: string) =>
    `apiVersion: metalbridge.dev/v1alpha1\nkind: InferenceService\nmetadata: { name: chat, namespace: ${desk.namespace} }\nspec: { modelRef: llama, ${fields} }\n`;
  await writeFile(manifest, `# a comment\n---\n${spec("contextSize: 8192, priority: high")}`);
  const { stdout } = await runVerb(["fit", "-f", manifest, "--context", "524288", "-o", "json"], desk);
  const answer = JSON.parse(stdout);
  expect(answer).toMatchObject({ service: `${desk.namespace}/chat`, priority: "high", contextSize: 524_288 });
  expect(answer.notes).toEqual([
    expect.stringMatching(
      /^a request could use 524288 tokens, but the model was trained for 131072: .* 131072 is enough$/,
    ),
  ]);

  await writeFile(manifest, spec('placement: { "on": Pods }'));
  expect((await runVerb(["fit", "-f", manifest], desk)).stdout).toContain(
    "note: the service runs in pods on Linux nodes, because spec.placement.on is Pods; the hosts below count with",
  );

  await writeFile(manifest, spec("contextSize: many"));
  expect(await runVerb(["fit", "-f", manifest], desk)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^ManifestInvalid: .*spec\.contextSize: /),
  });
  await writeFile(manifest, `${spec("contextSize: 1")}---\n${spec("contextSize: 2")}`);
  expect((await runVerb(["fit", "-f", manifest], desk)).stderr).toContain("has 2 InferenceServices");
  await writeFile(manifest, "a: [");
  expect((await runVerb(["fit", "-f", manifest], desk)).stderr).toMatch(/^ManifestInvalid: /);
});

test("a manifest is what the API server makes of it: refused by its rules, defaulted by it, changed by admission, and not kept", async () => {
  await using desk = await openDesk(cluster());
  await using folder = await temporaryFolder();
  await host(desk, 64);
  await model(desk, "llama");
  const manifest = path.join(folder.path, "chat.yaml");
  const write = (spec: string) =>
    writeFile(
      manifest,
      `apiVersion: metalbridge.dev/v1alpha1\nkind: InferenceService\nmetadata: { name: chat, namespace: ${desk.namespace} }\nspec: { modelRef: llama, ${spec} }\n`,
    );
  const ask = () => runVerb(["fit", "-f", manifest, "-o", "json"], desk);
  const refused = (what: RegExp) => ({ code: 1, stderr: expect.stringMatching(what) });

  await write("contextSize: 8192, contextSise: 1");
  expect(await ask()).toMatchObject(
    refused(/^ManifestInvalid: .*API server refuses it: .*spec\.contextSise/),
  );
  const rules = [
    { expression: "object.spec.priority != 'critical'", message: "ask the platform team first" },
  ];
  await admit(desk, rules);
  await write("contextSize: 8192, priority: critical");
  await vi.waitFor(
    async () => expect(await ask()).toMatchObject(refused(/^ManifestInvalid: .*ask the platform team first/)),
    { timeout: 60_000, interval: 250 },
  );

  await write("contextSize: 8192, parallelSlots: 2");
  const valid = await ask();
  expect(valid.stderr).toBe("");
  const answer = JSON.parse(valid.stdout);
  expect(answer).toMatchObject({ priority: "normal", contextSize: 8192, parallelSlots: 2, notes: [] });
  expect(answer.hosts).toMatchObject([{ fits: true }]);
  const { objects } = desk.cluster;
  expect((await objects.get(desk.namespace, "isvc")).items).toEqual([]);

  // Of one that exists too, as it would be after the apply.
  await desk.service("chat", { "spec.priority": "low" });
  const again = JSON.parse((await ask()).stdout);
  expect(again).toMatchObject({ priority: "normal", contextSize: 8192 });
  expect((await objects.get(desk.namespace, "isvc/chat")).spec).toMatchObject({ priority: "low" });
});

/** A policy on services, as a cluster's administrator has them. */
test("a manifest with a BackendRuntime, Models by role and flavors is resolved from the file and from the cluster", async () => {
  await using desk = await openDesk(cluster());
  await using folder = await temporaryFolder();
  const backend = `engine-${desk.namespace}`;
  const studio = await host(desk, 64, { "metadata.labels": { class: "studio" } }, [
    "llamacpp",
    `backend/${backend}`,
  ]);
  await host(desk, 64, { "metadata.labels": { class: "mini" } });
  for (const name of ["large", "small"]) await model(desk, name);
  const flavors = [
    { name: "l40s", nodeSelector: { gpu: "l40s" } },
    { name: "studio", hostSelector: { matchLabels: { class: "studio" } } },
  ];
  await desk.cluster.objects.patch(desk.namespace, "mdl/large", { spec: { flavors } });
  const file = path.join(folder.path, "chat.yaml");
  const modelRefs = [{ name: "large" }, { name: "small", role: "draft" }];
  const ask = async (spec: object, ...others: readonly object[]) => {
    const metadata = { name: "chat", namespace: desk.namespace };
    const service = { apiVersion: "metalbridge.dev/v1alpha1", kind: "InferenceService", metadata, spec };
    await writeFile(file, [service, ...others].map((one) => JSON.stringify(one)).join("\n---\n"));
    return runVerb(["fit", "-f", file, "-o", "json"], desk);
  };
  const runtime = {
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "BackendRuntime",
    metadata: { name: backend },
    spec: {
      host: { command: ["serve"], args: ["{{ .ModelPath }}", "{{ .DraftModelPath }}", "{{ .Port }}"] },
    },
  };
  const uses = { modelRefs, backendRuntime: { name: backend } };

  expect(await ask(uses)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      new RegExp(`^BackendRuntimeNotFound: BackendRuntime ${backend} does not exist`),
    ),
  });
  const ofFile = await ask(uses, runtime);
  expect(JSON.parse(ofFile.stdout)).toMatchObject({
    runtime: `backend/${backend}`,
    choice: { host: studio },
    notes: ["on flavor studio; not judged, because they run in pods: l40s"],
  });
  await desk.cluster.objects.create(runtime);
  expect(await ask(uses)).toMatchObject({ code: 0, stdout: ofFile.stdout });
  const drafted = JSON.parse((await ask({ modelRefs })).stdout);
  const alone = JSON.parse((await ask({ modelRef: "large" })).stdout);
  expect(drafted.claim.claimBytes).toBeGreaterThan(alone.claim.claimBytes);

  expect(await ask({ modelRef: "large", flavors: ["l40s"] })).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /^NoFlavorFits: no flavor of Model large runs on hosts: l40s: it selects nodes/,
    ),
  });
  expect(await ask({ modelRef: "large", flavors: ["a10"] })).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^FlavorNotFound: Model large has no flavor a10/),
  });
  expect(await ask({ modelRefs: [{ name: "large" }, { name: "absent", role: "draft" }] })).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("absent"),
  });
});

async function admit(desk: Desk, validations: readonly object[]): Promise<void> {
  const apiVersion = "admissionregistration.k8s.io/v1";
  const metadata = { name: "services-of-the-test" };
  const rule = { apiGroups: ["metalbridge.dev"], apiVersions: ["*"], resources: ["inferenceservices"] };
  const matchConstraints = { resourceRules: [{ ...rule, operations: ["CREATE", "UPDATE"] }] };
  const spec = { failurePolicy: "Fail", matchConstraints, validations };
  const binding = { policyName: metadata.name, validationActions: ["Deny"] };
  await desk.cluster.objects.apply(
    { apiVersion, kind: "ValidatingAdmissionPolicy", metadata, spec },
    { apiVersion, kind: "ValidatingAdmissionPolicyBinding", metadata, spec: binding },
  );
}

test("a claim that cannot be estimated says why", async () => {
  await using desk = await openDesk(cluster());
  const cases = [
    [["fit", "absent"], "ModelNotFound"],
    [["fit", "-f", "/nonexistent.yaml"], "ManifestInvalid"],
    [["fit", "/nonexistent.gguf"], "SourceNotFound"],
  ] as const;
  for (const [args, code] of cases)
    expect(await runVerb(args, desk)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(new RegExp(`^${code}: `)),
    });
  expect(await runVerb(["fit", "llama", "--slots", "none"], desk)).toMatchObject({ code: 2 });
  expect(await runVerb(["fit", "llama", "--selector", "pool"], desk)).toMatchObject({ code: 2 });
  await model(desk, "llama");
  const llama = ["fit", "llama", "-n", desk.namespace];
  const slots = await runVerb([...llama, "--slots", "4000"], desk);
  expect(slots).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^ManifestInvalid: the options: spec\.parallelSlots: /),
  });
  const { code, stdout } = await runVerb([...llama, "--slots", "64", "--context", "2097152"], desk);
  expect(code).toBe(1);
  expect(stdout).toMatch(/2097152 tokens in 64 slots[\s\S]*no host is registered/);
});
