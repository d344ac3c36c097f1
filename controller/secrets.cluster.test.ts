/** A host may get exactly the Secrets that its replicas name, for as long as they exist. */
import path from "node:path";
import { expect, test, vi } from "vitest";
import { NAMESPACE_HOSTS } from "../src/api/group.ts";
import { inferenceService, startBench } from "../test/controller/bench.ts";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";
import { giveIdentity } from "../test/security/identity.ts";

const WAIT = { timeout: 30_000, interval: 100 };

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

  await kubectl(["delete", "isvc", "chat", "-n", ns, "--timeout=30s"]);
  await vi.waitFor(() => expect(read("keys")).rejects.toThrow(/forbidden/), WAIT);
  expect(await read("other")).toBe("secret/other\n");
  await bench.stopController();
  await kubectl(["delete", "isvc", "more", "-n", ns, "--wait=false"]);
  await bench.restartController();
  await vi.waitFor(async () => expect(await roles()).toBe(""), WAIT);
  await expect(read("other")).rejects.toThrow(/forbidden/);
  expect(await kubectl(["get", "rolebindings", "-n", NAMESPACE_HOSTS, "-o", "name"])).toContain("mac-1");
});
