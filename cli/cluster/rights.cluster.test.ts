/** The roles of examples/rbac/operator.yaml are enough for every verb, and the first of them for those that only look. */
import path from "node:path";
import { expect, test, vi } from "vitest";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { writeAccountKubeconfig } from "../../test/bed/identity.ts";
import { openDesk } from "../../test/cli/objects.ts";
import { runProgram } from "../../test/cli/program.ts";
import type { TestCluster } from "../../test/cluster/cluster.ts";
import { root } from "../../test/docs/pages.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";

/** The API server learns of new bindings by a watch, so that they hold a moment after they were created. */
function untilAllowed(cluster: TestCluster, user: string, ...what: readonly string[]): Promise<string> {
  return vi.waitFor(() => cluster.kubectl(["auth", "can-i", ...what, `--as=${user}`]), {
    timeout: 60_000,
    interval: 100,
  });
}

test("viewers look, operators act, and neither needs more", async () => {
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

test("the roles of the chart let a namespace's users run services, and operators may scale them and read Events", async () => {
  await using desk = await openDesk();
  const { namespace, cluster } = desk;
  await desk.service("chat");
  // kube-controller-manager, which this cluster lacks, would add what carries the label to the built-in role.
  const roleFor = async (builtIn: "view" | "edit"): Promise<string> => {
    const label = `rbac.authorization.k8s.io/aggregate-to-${builtIn}=true`;
    const names = await cluster.kubectl(["get", "clusterroles", "-l", label, "-o", "name"]);
    return path.basename(names.split("\n").find((name) => name.includes("metalbridge")) ?? "");
  };
  const viewer = `${namespace}-viewer`;
  const editor = `${namespace}-editor`;
  for (const [role, users] of [
    [await roleFor("view"), [viewer, editor]],
    [await roleFor("edit"), [editor]],
  ] as const) {
    const binding = ["create", "rolebinding", role, `--clusterrole=${role}`, "-n", namespace];
    await cluster.kubectl([...binding, ...users.map((user) => `--user=${user}`)]);
  }
  const services = ["inferenceservices.metalbridge.dev", "-n", namespace];
  await untilAllowed(cluster, viewer, "get", ...services);
  await untilAllowed(cluster, editor, "get", ...services);
  await untilAllowed(cluster, editor, "create", ...services);
  const as = (user: string, ...args: string[]) => cluster.kubectl([...args, "-n", namespace, `--as=${user}`]);
  expect(await as(viewer, "get", "inferenceservices.metalbridge.dev", "-o", "name")).toContain("chat");
  await as(editor, "scale", "inferenceservices.metalbridge.dev/chat", "--replicas=2");
  const create = ["create", "--dry-run=server", "-f", path.join(root, "examples/quickstart/model.yaml")];
  expect(await as(editor, ...create)).toContain("created");
  await expect(as(viewer, ...create)).rejects.toThrow(/forbidden/);

  await cluster.kubectl(["apply", "-f", path.join(root, "examples/rbac/operator.yaml")]);
  const operator = `${namespace}-operator`;
  for (const role of ["metalbridge-viewer", "metalbridge-operator"]) {
    const binding = ["create", "clusterrolebinding", `${namespace}-${role}`, `--clusterrole=${role}`];
    await cluster.kubectl([...binding, `--user=${operator}`]);
  }
  await untilAllowed(cluster, operator, "list", "events");
  await untilAllowed(cluster, operator, "patch", ...services);
  await as(operator, "scale", "inferenceservices.metalbridge.dev/chat", "--replicas=3");
  await as(operator, "get", "events");
});
