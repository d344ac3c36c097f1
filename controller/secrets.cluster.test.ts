/** A host may get exactly the Secrets that its replicas name, for as long as they exist. */
import path from "node:path";
import { describe, expect, test, vi } from "vitest";
import { NAMESPACE_HOSTS } from "../src/api/group.ts";
import { giveIdentity } from "../test/bed/identity.ts";
import { objectsOf, type RequestRefused } from "../test/bed/objects.ts";
import { inferenceService, startBench } from "../test/controller/bench.ts";
import { oneOnce } from "../test/controller/once.ts";
import { proxyCluster } from "../test/fixtures/fault-proxy.ts";
import { keepLines, type LogLine } from "../test/fixtures/log-lines.ts";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";

const WAIT = { timeout: 60_000, interval: 50 };
const ROLE = "metalbridge-secrets-mac-1";
const auth = (name: string) => ({ auth: { secretRef: { name }, key: "api-key" } });

describe("step by step", () => {
  const bench = oneOnce();

  test("a host gets the Secrets that its replicas name, and loses them with the last replica", async () => {
    await using folder = await temporaryFolder();
    const { objects, cluster } = bench();
    const as = async (host: string) => {
      const file = path.join(folder.path, host);
      await giveIdentity(cluster, host, file);
      return objectsOf(file);
    };
    using host = await as("mac-1");
    using stranger = await as("mac-2");
    await bench().agents({ "mac-1": {} });
    const ns = await bench().namespace("team");
    for (const name of ["keys", "other", "unnamed"])
      await objects.create({
        ...{ apiVersion: "v1", kind: "Secret", metadata: { name, namespace: ns } },
        stringData: { "api-key": "sesame" },
      });
    const answer = (what: string, by = host) =>
      by.get(ns, what).then(
        () => "granted",
        ({ status }: RequestRefused) => (status === 403 ? "forbidden" : status),
      );
    // The API server's authorizer learns of Roles by a watch.
    const read = (name: string, expected: "granted" | "forbidden") =>
      vi.waitFor(async () => expect(await answer(`secret/${name}`)).toBe(expected), WAIT);
    await read("keys", "forbidden");

    await bench().apply(inferenceService(ns, "chat", auth("keys")));
    await read("keys", "granted");
    await bench().apply(inferenceService(ns, "more", auth("other")));
    await read("other", "granted");
    await read("keys", "granted");
    await read("unnamed", "forbidden");
    expect(await answer("secret/keys", stranger)).toBe("forbidden");
    expect(await answer("secret")).toBe("forbidden");

    // Someone widens or deletes it: the controller puts it back.
    const wider = { rules: [{ apiGroups: [""], resources: ["secrets"], verbs: ["get"] }] };
    await objects.patch(ns, `role/${ROLE}`, wider);
    await read("unnamed", "granted");
    await bench().settle();
    await read("unnamed", "forbidden");
    await objects.startRemoval(ns, `rolebinding/${ROLE}`);
    await read("keys", "forbidden");
    await bench().settle();
    await read("keys", "granted");

    await bench().remove(ns, "isvc/chat");
    await read("keys", "forbidden");
    await read("other", "granted");
    await bench().restart(() => objects.startRemoval(ns, "isvc/more"));
    for (const kind of ["role", "rolebinding"]) expect((await objects.get(ns, kind)).items).toEqual([]);
    await read("other", "forbidden");
    const bindings = (await objects.get(NAMESPACE_HOSTS, "rolebinding")).items;
    expect(bindings.map(({ metadata }: { metadata: { name: string } }) => metadata.name).join()).toContain(
      "mac-1",
    );
  });
});

test("a Role that was deleted while nothing came through is made again as soon as something does", async () => {
  await using bench = await startBench();
  const { objects } = bench;
  await using proxy = await proxyCluster(bench.controllerKubeconfig, bench.cluster.dir);
  await bench.restartController(proxy.kubeconfig);
  await bench.agent("mac-1");
  await bench.model("default", "tiny");
  await bench.apply(inferenceService("default", "chat", auth("keys")));
  const untilBoth = async () => {
    for (const kind of ["role", "rolebinding"])
      await objects.until("default", `${kind}/${ROLE}`, (found) => expect(found).toBeDefined());
  };
  await untilBoth();
  const renewed = async () =>
    (await objects.get("metalbridge-system", "lease/metalbridge-controller")).spec.renewTime;

  proxy.stall(true);
  await objects.remove("default", `role/${ROLE}`, `rolebinding/${ROLE}`);
  // Its renewals fail: what watches the same connection has missed the deletions.
  const before = await renewed();
  const connections = proxy.accepted();
  await vi.waitFor(() => expect(proxy.accepted()).toBeGreaterThan(connections), WAIT);
  proxy.stall(false);
  await objects.until("metalbridge-system", "lease/metalbridge-controller", ({ spec }) =>
    expect(spec.renewTime).not.toBe(before),
  );
  await untilBoth();
});

test("a controller that may not list Roles says so once, does the rest of its work, and uses the right once it is granted", async () => {
  const lines: LogLine[] = [];
  await using bench = await startBench({ log: keepLines(lines) });
  const { objects } = bench;
  await bench.stopController();
  // As the chart has it with rbac.secrets=false.
  const controllerRole = "clusterrole/metalbridge-controller";
  const { rules } = await objects.get("", controllerRole);
  const without = rules.filter(
    ({ resources }: { resources: string[] }) => !resources.some((one) => ["secrets", "roles"].includes(one)),
  );
  expect(without).toHaveLength(rules.length - 2);
  await objects.patch("", controllerRole, { rules: without });
  using controller = objectsOf(bench.controllerKubeconfig);
  await vi.waitFor(() => expect(controller.get("default", "roles")).rejects.toThrow(/forbidden/), WAIT);
  lines.length = 0;
  await bench.restartController();
  await bench.agent("mac-1");
  await bench.model("default", "tiny");
  await bench.apply(inferenceService("default", "chat", auth("keys")));
  await bench.serviceUntil("default", "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  const about = lines.filter((line) => /orbidden|roles/i.test(JSON.stringify(line)));
  expect(about).toMatchObject([
    { level: "warn", message: expect.stringContaining("may not list Roles, so hosts get no right") },
  ]);
  await objects.patch("", controllerRole, { rules });
  await objects.until("default", `role/${ROLE}`, (found) => expect(found).toBeDefined());
});
