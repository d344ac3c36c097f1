/** `metalbridge deploy` at a terminal; status is written by the test, as controller and agent would. */
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { LABEL_SERVICE } from "../src/api/group.ts";
import { INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../src/api/kinds.ts";
import { until } from "../test/bed/until.ts";
import { runInTerminal } from "../test/cli/in-terminal.ts";
import { openDesk } from "../test/cli/objects.ts";
import { runVerb } from "../test/cli/program.ts";

const MIB = 2 ** 20;

test("at a terminal it asks, and moves one bar while weights are fetched; Ctrl-C stops following", async () => {
  await using desk = await openDesk();
  const { kubeconfig, namespace } = desk;
  const start = (name: string, ...more: readonly string[]) => {
    const line = ["deploy", "/models/tiny.gguf", "--name", name, "-n", namespace, ...more];
    return runInTerminal(line, { kubeconfig, cols: 120 });
  };
  using refused = start("refused");
  using deploy = start("tiny");
  await refused.shows(/deploy refused in namespace \S+\? \[y\/N\]/);
  refused.pty.write("\u0003");
  expect(await refused.exitCode).toBe(1);
  expect(refused.screen()).toContain("NotConfirmed: nothing was changed");
  using left = start("left", "--yes");
  using failing = start("failing", "--yes");
  await deploy.shows("[y/N]");
  deploy.pty.write("y\r");
  await deploy.shows("service tiny is created");

  await desk.replica("tiny-0", "mac-1");
  const { objects } = desk.cluster;
  await objects.patch(namespace, "irep/tiny-0", { metadata: { labels: { [LABEL_SERVICE]: "tiny" } } });
  for (const mib of [100, 300]) {
    const progress = { bytes: mib * MIB, totalBytes: 400 * MIB };
    await desk.status(INFERENCE_REPLICAS, "tiny-0", { phase: "Fetching", progress });
    const bar = new RegExp(`\\nfetching .* ${mib / 4}% of 400 MiB, [^\\n]*$`);
    await until(() => expect(deploy.screen()).toMatch(bar));
  }
  expect(deploy.screen().match(/fetching/g)).toHaveLength(1);
  await desk.status(INFERENCE_SERVICES, "tiny", { phase: "Ready" });
  expect(await deploy.exitCode).toBe(0);
  expect(deploy.screen()).not.toContain("fetching");
  expect(deploy.screen()).toMatch(/\nservice tiny +Ready\nto chat with it: metalbridge chat tiny$/);

  await failing.shows("service failing is created");
  const failed = { phase: "Failed", reason: "ModelFailed", message: "Model failing: no such file" } as const;
  await desk.status(INFERENCE_SERVICES, "failing", { ...failed, observedGeneration: 1 });
  expect(await failing.exitCode).toBe(1);
  expect(failing.screen()).toContain(
    "ModelFailed: service failing cannot become Ready: Model failing: no such file",
  );
  expect(failing.screen()).toContain(`metalbridge describe failing -n ${namespace}`);

  await left.shows("service left is created");
  // It listens for Ctrl-C by the time that it says this.
  await desk.status(INFERENCE_SERVICES, "left", { phase: "WaitingForCapacity" });
  await left.shows(/service left +WaitingForCapacity/);
  left.pty.write("\u0003");
  expect(await left.exitCode).toBe(130);
  await objects.get(namespace, "isvc/left");
});

test("a model of the catalog becomes a Model with the repository and quantization that the catalog names", async () => {
  await using desk = await openDesk();
  const options = ["-n", desk.namespace, "--kubeconfig", desk.kubeconfig];
  const { stdout, stderr } = await runVerb(["deploy", "qwen3:8b", "--dry-run", ...options]);
  expect(stderr).toContain("catalog model Qwen/Qwen3-8B: hf://Qwen/Qwen3-8B-GGUF, quantization Q4_K_M");
  const guessed = await runVerb(["deploy", "Qwen/Qwen3-8BB", "--dry-run", ...options]);
  expect(guessed.stderr).toMatch(
    /not in the catalog: .* hf:\/\/Qwen\/Qwen3-8BB; similar names .*Qwen\/Qwen3/,
  );
  const [model, service] = parseAllDocuments(stdout).map((document) => document.toJS());
  expect(model).toMatchObject({
    kind: "Model",
    metadata: { name: "qwen3-8b" },
    spec: { source: "hf://Qwen/Qwen3-8B-GGUF", quantization: "Q4_K_M" },
  });
  expect(service).toMatchObject({ kind: "InferenceService", spec: { modelRef: "qwen3-8b" } });
});

test("kubectl creates what --dry-run prints, also under a name that YAML 1.1 would read as a boolean", async () => {
  await using desk = await openDesk();
  const options = ["-n", desk.namespace, "--kubeconfig", desk.kubeconfig];
  const { stdout } = await runVerb(["deploy", "qwen3:8b", "--name", "yes", "--dry-run", ...options]);
  const create = ["create", "--dry-run=server", "-o", "name", "-f", "-"];
  expect(await desk.cluster.kubectl(create, { input: stdout })).toBe(
    "model.metalbridge.dev/yes\ninferenceservice.metalbridge.dev/yes\n",
  );
});

test("delete asks as deploy does: without a terminal and without --yes nothing is deleted", async () => {
  await using desk = await openDesk();
  await desk.service("kept");
  const line = ["delete", "kept", "--wait=false", "-n", desk.namespace, "--kubeconfig", desk.kubeconfig];
  expect((await runVerb(line)).stderr).toContain("NotConfirmed");
  expect((await runVerb([...line, "--yes"])).stdout).toContain("service kept is being deleted");
});
