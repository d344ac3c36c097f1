import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { createServer } from "node:net";
import path from "node:path";
import { text } from "node:stream/consumers";
import { connect as connectTls } from "node:tls";
import { expect, test, vi } from "vitest";
import { createDryRun } from "../cli/controller/dry-run.ts";
import { TUNNEL_PROTOCOL } from "../src/api/access/remote.ts";
import { NAMESPACE_SYSTEM } from "../src/api/group.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../src/api/kinds.ts";
import { GGUF } from "../src/capacity/testing/models.ts";
import { connect } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { LEASES, SECRETS, SERVICES, VALIDATING_WEBHOOKS } from "../src/kube/kinds.ts";
import type { KubeObject } from "../src/kube/types.ts";
import type { Log } from "../src/util/ports.ts";
import { giveControllerIdentity, writeAccountKubeconfig } from "../test/bed/identity.ts";
import { freePort } from "../test/bed/ports.ts";
import { registerHost } from "../test/bed/scripted-host.ts";
import { helmIn, helmProgram, needsHelm, render } from "../test/chart/helm.ts";
import { oneCluster } from "../test/cluster/cluster.ts";
import { quietLog } from "../test/cluster/quiet-log.ts";
import { inferenceService, makeModel } from "../test/controller/bench.ts";
import { parseControllerConfig } from "./config.ts";
import { type Certificates, planCertificates } from "./frame/certificates/certificate.ts";
import { certificatesIn } from "./frame/certificates/rotation.ts";
import { type ControllerOptions, dryRunController, runController } from "./main.ts";
import { WEBHOOK_NAME } from "./options/preflight/option.ts";

const WAIT = { timeout: 60_000, interval: 50 };
const ownCluster = oneCluster({ crds: false });

/** A controller of its own, with the address of its health endpoints. */
async function start(
  kubeconfig: string,
  identity: string,
  log: Log = quietLog,
  more: { readonly flags?: object; readonly options?: Partial<ControllerOptions> } = {},
) {
  const stop = new AbortController();
  const flags = { kubeconfig, healthPort: 0, ...more.flags };
  const config = parseControllerConfig(flags);
  let listening: (port: number) => void = () => {};
  const port = new Promise<number>((resolve) => {
    listening = resolve;
  });
  const running = runController({
    config,
    log,
    signal: stop.signal,
    identity,
    lease: { retryMs: 1_000 },
    onListening: listening,
    ...more.options,
  });
  const url = `http://127.0.0.1:${await Promise.race([port, running])}`;
  return {
    get: async (path: string) => {
      const response = await fetch(url + path);
      return `${response.status} ${await response.text()}`;
    },
    stop: async () => {
      stop.abort();
      await running;
    },
  };
}

test("a controller waits for CRDs, is the only leader, hands over immediately, and releases the Lease", async () => {
  const cluster = ownCluster();
  const first = await start(cluster.kubeconfig, "first");
  expect(await first.get("/healthz")).toBe("200 ok\n");
  await vi.waitFor(
    async () => expect(await first.get("/readyz")).toContain("503 waiting for the first lists"),
    WAIT,
  );

  await cluster.installCrds();
  await vi.waitFor(async () => expect(await first.get("/readyz")).toBe("200 ok\n"), WAIT);
  expect(await first.get("/metrics")).toMatch(/metalbridge_controller_leading 1/);

  const tunnel = Promise.withResolvers<number>();
  const second = await start(cluster.kubeconfig, "second", quietLog, {
    flags: { tunnel: true, tunnelAddress: "127.0.0.1", tunnelPort: 0 },
    options: { onOptionListening: (_, port) => tunnel.resolve(port) },
  });
  await vi.waitFor(
    async () => expect(await second.get("/readyz")).toBe("503 waiting for leadership\n"),
    WAIT,
  );
  // One that does not lead looks hosts up for tunnels.
  const headers = { connection: "Upgrade", upgrade: TUNNEL_PROTOCOL };
  const asked = request({ port: await tunnel.promise, path: "/hosts/absent", headers }).end();
  const [answer] = await once(asked, "response");
  expect(await text(answer)).toMatch(/"absent" not found/);
  await first.stop();
  await vi.waitFor(async () => expect(await second.get("/readyz")).toBe("200 ok\n"), WAIT);
  await second.stop();

  const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  const lease = await createClient(connection).get(LEASES, {
    name: "metalbridge-controller",
    namespace: NAMESPACE_SYSTEM,
  });
  connection.close();
  expect(lease.ok ? (lease.value.spec?.holderIdentity ?? "") : lease.error).toBe("");
});

test("a dry run prints the steps of each service with their reasons, with rights to read only, and writes nothing", async () => {
  const cluster = ownCluster();
  const { objects } = cluster;
  await cluster.installCrds();
  const name = "dry-runner";
  const kubeconfig = path.join(cluster.dir, "reader.kubeconfig");
  const rbac = { apiVersion: "rbac.authorization.k8s.io/v1", metadata: { name } };
  const rules = [{ apiGroups: ["*"], resources: ["*"], verbs: ["get", "list", "watch"] }];
  const reviews = { apiGroups: ["authorization.k8s.io"], resources: ["*"], verbs: ["create"] };
  const subjects = [{ kind: "ServiceAccount", name, namespace: "default" }];
  const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name };
  await objects.apply(
    { apiVersion: "v1", kind: "ServiceAccount", metadata: { name, namespace: "default" } },
    { ...rbac, kind: "ClusterRole", rules: [...rules, reviews] },
    { ...rbac, kind: "ClusterRoleBinding", subjects, roleRef },
  );
  await writeAccountKubeconfig(cluster, { name, namespace: "default", file: kubeconfig });
  const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  const client = createClient(connection);
  await makeModel(client, objects.apply, "default", "tiny");
  await registerHost(client, "mac-dry");
  const { status } = await objects.get("", "hosts/mac-dry");
  const lastTransitionTime = new Date().toISOString();
  const reachable = {
    type: "Reachable",
    status: "True",
    reason: "HostReachable",
    message: "",
    lastTransitionTime,
  };
  const conditions = [...status.conditions, reachable];
  await objects.patch("", "hosts/mac-dry", { status: { conditions } }, "status");
  await objects.apply(inferenceService("default", "planned"));
  const stored = async () => {
    const of = { namespace: "default" };
    const lists = await Promise.all([
      client.list(INFERENCE_SERVICES, of),
      client.list(INFERENCE_REPLICAS, of),
      client.list(SERVICES, of),
      client.list(HOSTS),
      client.list(MODELS, of),
      client.list(LEASES, { namespace: NAMESPACE_SYSTEM }),
    ]);
    const all = lists.flatMap((list) => (list.ok ? list.value.items : []) as readonly KubeObject[]);
    return all.map(({ metadata }) => `${metadata.name} ${metadata.resourceVersion}`);
  };
  const before = await stored();
  const printed: string[] = [];
  await dryRunController(
    {
      config: parseControllerConfig({ kubeconfig, fitness: false }),
      log: quietLog,
      signal: new AbortController().signal,
    },
    createDryRun((text) => printed.push(text)),
  );
  const text = printed.find((one) => one.startsWith("default/planned:")) ?? "";
  expect(text).toMatch(/^default\/planned: \w+ \(\w+\): /);
  expect(text).toContain("\n  addFinalizer InferenceService planned: ");
  expect(text).toContain("\n  create Service planned: ");
  expect(text).toMatch(/\n {2}create InferenceReplica planned-0-\w+ on mac-dry: ./);
  expect(await stored()).toEqual(before);
  await objects.remove("default", "isvc/planned");
  await objects.remove("", "hosts/mac-dry");
  connection.close();
});

test("a kubeconfig that cannot be read is an error", async () => {
  const stop = new AbortController();
  const config = parseControllerConfig({ kubeconfig: "/nonexistent/kubeconfig", healthPort: 0 });
  await expect(runController({ config, log: quietLog, signal: stop.signal })).rejects.toMatchObject({
    code: "KubeconfigUnreadable",
  });
});

test("an unreachable API server is retried, and logged once with the remedy", async () => {
  const cluster = ownCluster();
  await cluster.installCrds();
  const right = await readFile(cluster.kubeconfig, "utf8");
  const file = path.join(cluster.dir, "nowhere.kubeconfig");
  await writeFile(file, right.replace(`:${cluster.port}`, ":1"));
  const lines: string[] = [];
  const controller = await start(file, "patient", { ...quietLog, warn: (_, text) => lines.push(text) });
  await vi.waitFor(() => expect(lines).toHaveLength(1), WAIT);
  expect(lines[0]).toMatch(/retrying: .*127\.0\.0\.1:1.*; .*kubeconfig/);
  expect(await controller.get("/healthz")).toBe("200 ok\n");
  expect(await controller.get("/readyz")).toBe("503 waiting for the API server\n");
  await writeFile(file, right);
  await vi.waitFor(async () => expect(await controller.get("/readyz")).toBe("200 ok\n"), WAIT);
  await controller.stop();
});

test.skipIf(helmProgram === undefined)(
  `preflight: a service that fits nowhere is refused by whichever controller is asked, until none answers${needsHelm}`,
  async () => {
    const { dir, kubeconfig, objects, installCrds } = ownCluster();
    await installCrds();
    const own = path.join(dir, "own.kubeconfig");
    await giveControllerIdentity(ownCluster(), own);
    const port = await freePort();
    await installPreflight(`https://127.0.0.1:${port}/preflight`);
    const flags = { preflight: "Deny", preflightAddress: "127.0.0.1", preflightNames: "127.0.0.1" };
    const options = { createModelPass: () => async () => undefined };
    const leader = await start(own, "leader", quietLog, { flags: { ...flags, preflightPort: 0 }, options });
    await vi.waitFor(async () => expect(await leader.get("/readyz")).toBe("200 ok\n"), WAIT);
    let listening: () => void = () => {};
    const isListening = new Promise<void>((resolve) => {
      listening = resolve;
    });
    const squatter = createServer().listen(port, "127.0.0.1");
    await once(squatter, "listening");
    const other = await start(own, "other", quietLog, {
      flags: { ...flags, preflightPort: port },
      options: { ...options, onOptionListening: listening },
    });
    const why = `the preflight webhook does not listen yet: cannot listen on 127.0.0.1:${port}: the port is in use`;
    await vi.waitFor(async () => expect(await other.get("/readyz/preflight")).toBe(`503 ${why}\n`), WAIT);
    await vi.waitFor(async () => expect(await other.get("/readyz")).toContain(why), WAIT);
    squatter.close();
    const connection = await connect({ kubeconfigPath: kubeconfig });
    const client = createClient(connection);
    const sized = { gguf: GGUF, format: "gguf", sizeBytes: 40 * 2 ** 30, weightsBytes: 40 * 2 ** 30 };
    await put(
      "Model",
      { name: "tiny", namespace: "default" },
      { source: "https://models.example/a.gguf" },
      { phase: "Ready", reason: "SourceResolved", ...sized },
    );
    await put(
      "Host",
      { name: "mac-3" },
      { addresses: ["10.0.0.3"] },
      {
        info: { os: "darwin", chip: "Apple M4" },
        memory: { totalBytes: 16 * 2 ** 30, gpuBudgetBytes: 12 * 2 ** 30 },
        runtimes: [{ name: "llamacpp" }],
      },
    );
    await isListening;
    expect(await other.get("/readyz/preflight")).toBe("200 ok\n");
    const create = (name: string, options?: { readonly dryRun: boolean }) =>
      objects.create(inferenceService("default", name), options);
    const refusal =
      /the model fits no machine: it needs 4\d(\.\d)? GiB, .* closest machine, mac-3, offers 12 GiB/;
    const untilRefused = () =>
      vi.waitFor(() => expect(create("big", { dryRun: true })).rejects.toThrow(refusal), WAIT);
    await untilRefused();
    await expect(create("big")).rejects.toThrow(refusal);

    const secret = async () => {
      const found = await client.get(SECRETS, { name: WEBHOOK_NAME, namespace: NAMESPACE_SYSTEM });
      if (!found.ok) throw new Error(found.error.message);
      return found.value;
    };
    const first = await secret();
    const files = certificatesIn(first) as Certificates;
    const short = planCertificates(files, ["127.0.0.1", "old.example"], 3_600_000, Date.now());
    const data = Object.fromEntries(
      Object.entries(short.certificates).map(([file, text]) => [file, Buffer.from(text).toString("base64")]),
    );
    const written = await client.update(SECRETS, { ...first, data });
    expect(written.ok).toBe(true);
    const served = await vi.waitFor(async () => {
      const now = certificatesIn(await secret())["tls.crt"];
      expect([files["tls.crt"], short.certificates["tls.crt"]]).not.toContain(now);
      return now;
    }, WAIT);
    await vi.waitFor(async () => expect(await certificateAt(port)).toBe(served), WAIT);
    const trusted = await client.get(VALIDATING_WEBHOOKS, { name: WEBHOOK_NAME });
    const { caBundle = "" } = (trusted.ok ? trusted.value.webhooks : [])?.[0]?.clientConfig ?? {};
    expect(Buffer.from(caBundle, "base64").toString()).toBe(files["ca.crt"]);
    await untilRefused();

    await other.stop();
    expect(await create("big")).toMatchObject({ metadata: { name: "big" } });
    await leader.stop();
    connection.close();
    await objects.remove("", `validatingwebhookconfiguration/${WEBHOOK_NAME}`);

    /** As the chart has it, but for the way to the webhook: a test's API server reaches no Service. */
    async function installPreflight(url: string): Promise<void> {
      const rendered = await render(helmIn(dir), "--set", "preflight.mode=Deny");
      for (const object of rendered.filter(({ metadata }) => metadata.name === WEBHOOK_NAME)) {
        const { webhooks } = object as { webhooks?: readonly object[] };
        const at = webhooks?.map((webhook) => ({ ...webhook, clientConfig: { url } }));
        await objects.apply({ ...object, ...(at === undefined ? {} : { webhooks: at }) });
      }
    }

    async function put(
      kind: string,
      metadata: { readonly name: string; readonly namespace?: string },
      spec: object,
      status: object,
    ): Promise<void> {
      const { namespace = "", name } = metadata;
      await objects.apply({ apiVersion: "metalbridge.dev/v1alpha1", kind, metadata, spec });
      await objects.patch(namespace, `${kind}/${name}`, { status }, "status");
    }
  },
);

/** PEM. */
function certificateAt(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connectTls({ host: "127.0.0.1", port, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerX509Certificate()?.toString() ?? "");
      socket.destroy();
    });
    socket.on("error", reject);
  });
}
