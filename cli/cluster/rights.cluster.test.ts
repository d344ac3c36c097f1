/** The roles of examples/rbac/operator.yaml are enough for every verb, and the first of them for those that only look. */
import path from "node:path";
import { expect, test } from "vitest";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { openDesk } from "../../test/cli/objects.ts";
import { runProgram } from "../../test/cli/program.ts";
import { writeAccountKubeconfig } from "../../test/docs/agent-rights.ts";
import { root } from "../../test/docs/pages.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";

test("viewers look, operators act, and neither needs more", { timeout: 120_000 }, async () => {
  await using desk = await openDesk();
  await using folder = await temporaryFolder();
  const { namespace, cluster } = desk;
  await cluster.kubectl(["apply", "-f", path.join(root, "examples/rbac/operator.yaml")]);
  const accountOf = async (name: string, roles: readonly string[]) => {
    await cluster.kubectl(["create", "serviceaccount", name, "-n", namespace]);
    for (const role of roles) {
      const binding = [
        "create",
        "clusterrolebinding",
        `${namespace}-${name}-${role}`,
        `--clusterrole=${role}`,
      ];
      await cluster.kubectl([...binding, `--serviceaccount=${namespace}:${name}`]);
    }
    const kubeconfig = path.join(folder.path, name);
    await writeAccountKubeconfig(cluster, { name, namespace, file: kubeconfig });
    return { kubeconfig };
  };
  const viewer = await accountOf("viewer", ["metalbridge-viewer"]);
  const operator = await accountOf("operator", ["metalbridge-viewer", "metalbridge-operator"]);
  const host = await desk.host();
  await desk.service("chat");
  await desk.replica("chat-0-abcdefgh12", host);
  await desk.status(INFERENCE_SERVICES, "chat", {
    ...{ observedGeneration: 1, desiredReplicas: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1 },
  });

  const inNamespace = ["-n", namespace];
  const looks = [
    ["host", "list"],
    ["describe", "chat", ...inNamespace],
    ["describe", "chat-0-abcdefgh12", ...inNamespace],
    ["rollout", "status", "chat", ...inNamespace],
    ["rollout", "history", "chat", ...inNamespace],
  ];
  for (const args of looks) {
    const { code, stderr } = await runProgram(args, viewer);
    expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: "" });
  }
  const denied = await runProgram(["cordon", host], viewer);
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
    expect({ args, code: (await runProgram(args, operator)).code }).toEqual({ args, code: 0 });
  }
  const undo = await runProgram(["rollout", "undo", "chat", ...inNamespace], operator);
  expect(undo.stderr).toMatch(/^RevisionNotFound: service chat has no earlier revision/);
  const drain = await runProgram(["drain", host, "--timeout", "1s"], operator);
  expect(drain.stderr).toMatch(/^DrainNotFinished: /);
});
