/** The SkillPack on a real API server with Sympozium's kind, and the sidecar with exactly the rights that the pack asks for. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { READING_COMMANDS } from "../../cli/skill-sidecar/request.ts";
import { root } from "../../scripts/project/root.ts";
import { writeAccountKubeconfig } from "../bed/identity.ts";
import { until } from "../bed/until.ts";
import { startProgram } from "../cli/program.ts";
import { sharedCluster } from "../cluster/cluster.ts";
import { manifest } from "../fixtures/manifests.ts";
import { skillPackDefinition } from "../fixtures/skill-pack-definition.ts";
import { temporaryFolder } from "../fixtures/temporary-folder.ts";

const NAMESPACE = "sympozium-system";
/** What each reading command is asked for. */
const ASKED: Readonly<Record<string, string>> = {
  get: "services -A",
  describe: `chat -n ${NAMESPACE}`,
  fit: `--host skill-mac -n ${NAMESPACE}`,
  "catalog search": "qwen",
  "models list": "--all-hosts",
  "rollout status --watch=false": `chat -n ${NAMESPACE}`,
  "rollout history": `chat -n ${NAMESPACE}`,
  "deploy --dry-run": "/models/tiny.gguf",
};
const pack = parse(readFileSync(path.join(root, "skills/metalbridge/skillpack.yaml"), "utf8"));

test("the API server takes the SkillPack strictly, and its rights are enough for the sidecar", async () => {
  const cluster = sharedCluster();
  const { objects } = cluster;
  await objects.createNamespace(NAMESPACE);
  await objects.apply(skillPackDefinition());
  await until(() => objects.create(pack, { dryRun: true }));
  const wrong = { ...pack, spec: { ...pack.spec, wings: 2 } };
  await expect(objects.create(wrong, { dryRun: true })).rejects.toThrow(/wings/);

  // As Sympozium does for each run of an agent.
  const name = "sympozium-agent";
  const subjects = [{ kind: "ServiceAccount", name, namespace: NAMESPACE }];
  const rbac = "rbac.authorization.k8s.io";
  await objects.apply(
    { apiVersion: "v1", kind: "ServiceAccount", metadata: { name, namespace: NAMESPACE } },
    {
      apiVersion: `${rbac}/v1`,
      kind: "ClusterRole",
      metadata: { name },
      rules: pack.spec.sidecar.clusterRBAC,
    },
    {
      apiVersion: `${rbac}/v1`,
      kind: "ClusterRoleBinding",
      metadata: { name },
      subjects,
      roleRef: { apiGroup: rbac, kind: "ClusterRole", name },
    },
  );
  await using folder = await temporaryFolder();
  const kubeconfig = path.join(folder.path, "kubeconfig");
  await writeAccountKubeconfig(cluster, { name, namespace: NAMESPACE, file: kubeconfig });
  const tools = path.join(folder.path, "ipc", "tools");
  mkdirSync(tools, { recursive: true });
  await using sidecar = startProgram(["skill-sidecar", "--ipc", path.dirname(tools)], { kubeconfig });
  const ask = async (id: string, command: string) => {
    const file = path.join(tools, `exec-request-${id}.json`);
    writeFileSync(`${file}.new`, JSON.stringify({ id, command, workDir: "/workspace", timeout: 60 }));
    renameSync(`${file}.new`, file);
    return until(() => JSON.parse(readFileSync(path.join(tools, `exec-result-${id}.json`), "utf8")));
  };

  const status = await ask("1", "metalbridge status -o json");
  expect(status).toMatchObject({ id: "1", exitCode: 0, timedOut: false });
  expect(JSON.parse(status.stdout).missing ?? []).toEqual([]);
  const report = await ask("2", "metalbridge report --markdown");
  expect(report).toMatchObject({ exitCode: 0, stdout: expect.stringContaining("## Status") });
  expect(await ask("3", "metalbridge fit any-model -n default")).toMatchObject({ exitCode: 1 });
  expect(await ask("4", "metalbridge delete chat --yes")).toMatchObject({
    exitCode: 126,
    stderr: expect.stringContaining("only reads"),
  });
  await objects.apply(
    manifest("Host", "skill-mac"),
    manifest("Model", "tiny", NAMESPACE),
    manifest("InferenceService", "chat", NAMESPACE),
  );
  const lacking: Record<string, readonly string[]> = {};
  for (const command of Object.keys(READING_COMMANDS)) {
    const answer = await ask(
      command.replaceAll(/\W/g, "-"),
      `metalbridge ${command} ${ASKED[command] ?? ""}`,
    );
    const lines = `${answer.stdout}${answer.stderr}`.split("\n");
    const refused = lines.filter((line) => /forbidden|may not|no right/i.test(line));
    if (refused.length > 0) lacking[command] = refused;
    // The host has not reported its machine.
    const stderr = expect.stringContaining("MachineUnusable");
    expect(answer, command).toMatchObject(command === "fit" ? { stderr } : { exitCode: 0 });
  }
  // As README.md says.
  expect(lacking).toEqual({
    describe: [expect.stringContaining("may not list events")],
    report: [expect.stringContaining("pods are not shown")],
  });
  writeFileSync(path.join(path.dirname(tools), "done"), "");
  expect(await sidecar.ended).toMatchObject({ code: 0 });
});
