/** A host may get exactly the Secrets that its replicas name, for as long as they exist. */
import path from "node:path";
import { expect, test, vi } from "vitest";
import { NAMESPACE_HOSTS } from "../src/api/group.ts";
import { giveIdentity } from "../test/bed/identity.ts";
import { inferenceService, startBench } from "../test/controller/bench.ts";
import { proxyCluster } from "../test/fixtures/fault-proxy.ts";
import { keepLines, type LogLine } from "../test/fixtures/log-lines.ts";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";

const WAIT = { timeout: 60_000, interval: 100 };
const AUTH = { auth: { secretRef: { name: "keys" }, key: "api-key" } };
const ROLE = "metalbridge-secrets-mac-1";

test("a host gets the Secrets that its replicas name, and loses them with the last replica", async () => {
  await using bench = await startBench();
  await using folder = await temporaryFolder();
  const { kubectl } = bench.cluster;
  const ns = "team";
  await kubectl(["create", "namespace", ns]);
  for (const name of ["keys", "other", "unnamed"])
    await kubectl(["create", "secret", "generic", name, "--from-literal=api-key=sesame", "-n", ns]);
  await bench.agent("mac-1");
  const file = path.join(folder.path, "mac-1");
  const stranger = path.join(folder.path, "mac-2");
  await giveIdentity(bench.cluster, "mac-1", file);
  await giveIdentity(bench.cluster, "mac-2", stranger);
  const read = (name: string, by = file) =>
    kubectl(["get", "secret", name, "-n", ns, "-o", "name", `--kubeconfig=${by}`]);
  const roles = () => kubectl(["get", "role,rolebinding", "-n", ns, "-o", "name"]);
  await expect(read("keys")).rejects.toThrow(/forbidden/);

  await bench.model(ns, "tiny");
  const auth = (name: string) => ({ auth: { secretRef: { name }, key: "api-key" } });
  await bench.apply(inferenceService(ns, "chat", auth("keys")));
  await vi.waitFor(async () => expect(await read("keys")).toBe("secret/keys\n"), WAIT);
  await bench.apply(inferenceService(ns, "more", auth("other")));
  await vi.waitFor(async () => expect(await read("other")).toBe("secret/other\n"), WAIT);
  expect(await read("keys")).toBe("secret/keys\n");
  await expect(read("unnamed")).rejects.toThrow(/forbidden/);
  await expect(read("keys", stranger)).rejects.toThrow(/forbidden/);
  await expect(kubectl(["get", "secrets", "-n", ns, `--kubeconfig=${file}`])).rejects.toThrow(/forbidden/);

  // Someone widens or deletes it: the controller puts it back.
  const wider = JSON.stringify({ rules: [{ apiGroups: [""], resources: ["secrets"], verbs: ["get"] }] });
  await kubectl(["patch", "role", "metalbridge-secrets-mac-1", "-n", ns, "--type=merge", "-p", wider]);
  await vi.waitFor(() => expect(read("unnamed")).rejects.toThrow(/forbidden/), WAIT);
  await kubectl(["delete", "rolebinding", "metalbridge-secrets-mac-1", "-n", ns]);
  await vi.waitFor(async () => expect(await read("keys")).toBe("secret/keys\n"), WAIT);

  await kubectl(["delete", "isvc", "chat", "-n", ns, "--timeout=60s"]);
  await vi.waitFor(() => expect(read("keys")).rejects.toThrow(/forbidden/), WAIT);
  expect(await read("other")).toBe("secret/other\n");
  await bench.stopController();
  await kubectl(["delete", "isvc", "more", "-n", ns, "--wait=false"]);
  await bench.restartController();
  await vi.waitFor(async () => expect(await roles()).toBe(""), WAIT);
  // The API server's authorizer learns by a watch that the Roles are gone.
  await vi.waitFor(() => expect(read("other")).rejects.toThrow(/forbidden/), WAIT);
  expect(await kubectl(["get", "rolebindings", "-n", NAMESPACE_HOSTS, "-o", "name"])).toContain("mac-1");
});

test("a Role that was deleted while nothing came through is made again as soon as something does", async () => {
  await using bench = await startBench();
  const { kubectl } = bench.cluster;
  await using proxy = await proxyCluster(bench.controllerKubeconfig, bench.cluster.dir);
  await bench.restartController(proxy.kubeconfig);
  await bench.agent("mac-1");
  await bench.model("default", "tiny");
  await bench.apply(inferenceService("default", "chat", AUTH));
  const untilBoth = () =>
    vi.waitFor(async () => {
      const names = await kubectl(["get", "role,rolebinding", "-n", "default", "-o", "name"]);
      expect(names.split(ROLE)).toHaveLength(3);
    }, WAIT);
  await untilBoth();
  const lease = ["get", "lease", "metalbridge-controller", "-n", "metalbridge-system", "-o", "yaml"];

  proxy.stall(true);
  await kubectl(["delete", "role,rolebinding", ROLE, "-n", "default"]);
  // Its renewals fail: what watches the same connection has missed the deletions.
  const before = await kubectl(lease);
  const connections = proxy.accepted();
  await vi.waitFor(() => expect(proxy.accepted()).toBeGreaterThan(connections), WAIT);
  proxy.stall(false);
  await vi.waitFor(async () => expect(await kubectl(lease)).not.toBe(before), WAIT);
  await untilBoth();
});

test("a controller that may not list Roles says so once, does the rest of its work, and uses the right once it is granted", async () => {
  const lines: LogLine[] = [];
  await using bench = await startBench({ log: keepLines(lines) });
  const { kubectl } = bench.cluster;
  await bench.stopController();
  // As the chart has it with rbac.secrets=false.
  const { rules } = JSON.parse(await kubectl(["get", "clusterrole", "metalbridge-controller", "-o", "json"]));
  const without = rules.filter(
    ({ resources }: { resources: string[] }) => !resources.some((one) => ["secrets", "roles"].includes(one)),
  );
  expect(without).toHaveLength(rules.length - 2);
  const patch = JSON.stringify({ rules: without });
  await kubectl(["patch", "clusterrole", "metalbridge-controller", "--type=merge", "-p", patch]);
  const listRoles = ["get", "roles", "-A", `--kubeconfig=${bench.controllerKubeconfig}`];
  await vi.waitFor(() => expect(kubectl(listRoles)).rejects.toThrow(/forbidden/), WAIT);
  lines.length = 0;
  await bench.restartController();
  await bench.agent("mac-1");
  await bench.model("default", "tiny");
  await bench.apply(inferenceService("default", "chat", AUTH));
  await bench.serviceUntil("default", "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  const about = lines.filter((line) => /orbidden|roles/i.test(JSON.stringify(line)));
  expect(about).toMatchObject([
    { level: "warn", message: expect.stringContaining("may not list Roles, so hosts get no right") },
  ]);
  const granted = JSON.stringify({ rules });
  await kubectl(["patch", "clusterrole", "metalbridge-controller", "--type=merge", "-p", granted]);
  const role = () => kubectl(["get", "role", ROLE, "-n", "default", "-o", "name"]);
  await vi.waitFor(async () => expect(await role()).toContain(ROLE), WAIT);
});
