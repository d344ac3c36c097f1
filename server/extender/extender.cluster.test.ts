/** The extender with a real kube-scheduler over TLS, on simulated nodes of six classes. */
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import path from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findClusterParts } from "../../local/control-plane/parts.ts";
import { controlPlaneLayoutOf } from "../../local/control-plane/state/layout.ts";
import { createCertificate } from "../../src/crypto/certificate.ts";
import { describeUnless } from "../../test/bed/describe-unless.ts";
import {
  ANY_GPU,
  measuredModel,
  measuredService,
  measuredTable,
  NODE_CLASSES,
  type NodeClassName,
  servicePod,
} from "../../test/bed/gpu-classes.ts";
import { whyNoSimulatedNodes } from "../../test/bed/kwok.ts";
import { freePort } from "../../test/bed/ports.ts";
import { until } from "../../test/bed/until.ts";
import { startLinuxCluster } from "../../test/cluster/linux-cluster.ts";
import { root } from "../../test/docs/pages.ts";
import { keepLines, type LogLine } from "../../test/fixtures/log-lines.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { parseServerConfig } from "../config.ts";
import { runServer } from "../main.ts";

const { key, cert } = createCertificate({ name: "extender", hosts: ["127.0.0.1"], isAuthority: true });

/** As in an example, with the address and the authority of this test. */
function exampleConfig(file: string, port: number, caFile: string) {
  const config = parse(readFileSync(path.join(root, file), "utf8"));
  const [extender] = config.extenders;
  const tls = { enableHTTPS: true, tlsConfig: { caFile } };
  return { ...config, extenders: [{ ...extender, urlPrefix: `https://127.0.0.1:${port}`, ...tls }] };
}

describeUnless(whyNoSimulatedNodes(), "kube-scheduler with the extender", () => {
  test("pods land on the best node, follow new figures, and are scheduled without the extender", async () => {
    const port = await freePort();
    await using folder = await temporaryFolder();
    const dir = folder.path;
    const [caFile, keyFile] = [path.join(dir, "ca.crt"), path.join(dir, "tls.key")];
    writeFileSync(caFile, cert);
    writeFileSync(keyFile, key);
    const schedulerConfig = exampleConfig("examples/scheduler/embedded.yaml", port, caFile);
    // The resource that every node has is not one of the example.
    delete schedulerConfig.extenders[0].managedResources;
    const nodes = Object.entries(NODE_CLASSES).map(([name, one]) => ({ name, ...one }));
    await using cluster = await startLinuxCluster(nodes, { schedulerConfig });
    const { objects, kubeconfig } = cluster;
    const { apply } = objects;
    const { status, ...model } = measuredModel("default");
    const table = (speeds?: Partial<Record<NodeClassName, number>>) => ({
      apiVersion: "v1",
      kind: "ConfigMap",
      ...measuredTable(speeds),
    });
    await apply(model, measuredService("default"), table());
    await objects.patch("default", "model/measured", { status }, "status");

    const lines: LogLine[] = [];
    const ending = new AbortController();
    const tls = { extenderTlsCert: caFile, extenderTlsKey: keyFile };
    const config = parseServerConfig({ kubeconfig, port: 0, healthPort: 0, extenderPort: port, ...tls });
    const running = runServer({
      config,
      records: [],
      version: "1.0.0",
      log: keepLines(lines),
      signal: ending.signal,
    });
    const scores = async (
      names: readonly NodeClassName[],
      selectors: readonly Readonly<Record<string, string>>[] = [],
    ) => {
      const pod = servicePod("probe", "default");
      const nodeSelectorTerms = selectors.map((labels) => ({
        matchExpressions: Object.entries(labels).map(([key, value]) => ({
          key,
          operator: "In",
          values: [value],
        })),
      }));
      const required = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } };
      const spec = { ...pod.spec, affinity: { nodeAffinity: required } };
      const body = { Pod: { ...pod, spec }, NodeNames: names };
      const answer = JSON.parse(await post(port, "prioritize", body)) as { readonly Score: number }[];
      return answer.map(({ Score }) => Score);
    };
    await until(async () => expect(await scores(["a100", "l40s", "l4"])).toEqual([10, 7, 5]));
    const nodeOf = async (name: string, resource?: string) => {
      await objects.create(servicePod(name, "default", resource));
      return objects.until("default", `pod/${name}`, ({ spec }): string => {
        expect(spec.nodeName).toBeDefined();
        return spec.nodeName;
      });
    };
    expect([await nodeOf("first"), await nodeOf("second"), await nodeOf("third")]).toEqual([
      "a100",
      "l40s",
      "l4",
    ]);
    expect(lines.find(({ message }) => message === "nodes scored")?.data).toMatchObject({
      pod: expect.stringContaining("default/"),
      model: "default/measured",
      best: [
        { node: "a100", score: 10, why: expect.stringContaining("80 of 80 tokens/s (measured)") },
        {},
        {},
      ],
    });

    // Only the slice and the other vendor are left for a pod that does not fit them.
    const fitting = ["a100", "l40s", "l4", "v100"];
    const cordon = async (unschedulable: boolean) => {
      for (const name of fitting) await objects.patch("", `node/${name}`, { spec: { unschedulable } });
    };
    await cordon(true);
    await objects.create(servicePod("waiting", "default", ANY_GPU));
    const message = await objects.until(
      "default",
      "pod/waiting",
      ({ status: { conditions = [] } }): string => {
        const found = conditions.find(({ type }: { readonly type: string }) => type === "PodScheduled");
        expect(found?.message).toContain("GPU");
        return found.message;
      },
    );
    expect(message).toContain("1 GPU vendor is AMD, the model needs NVIDIA");
    expect(message).toContain("1 MIG slice has 4.8 GiB of memory, the model needs 13 GiB");

    await objects.remove("default", "pods");
    await cordon(false);
    await apply(table({ a100: 10, l40s: 50, l4: 20 }));
    await until(async () => expect(await scores(["a100", "l40s"])).toEqual([4, 10]));
    expect(await nodeOf("fourth")).toBe("l40s");

    const product = (name: "l4" | "l40s") => ({
      "nvidia.com/gpu.product": NODE_CLASSES[name].labels["nvidia.com/gpu.product"] ?? "",
    });
    const flavors = (["l4", "l40s"] as const).map((name) => ({ name, nodeSelector: product(name) }));
    await apply({ ...model, spec: { ...model.spec, flavors } });
    await until(async () => {
      const [l40s, l4] = await scores(
        ["l40s", "l4"],
        flavors.map(({ nodeSelector }) => nodeSelector),
      );
      // The slower one, of the earlier flavor.
      expect(l4).toBeGreaterThanOrEqual(8);
      expect(l40s).toBeLessThanOrEqual(2);
    });

    ending.abort();
    await running;
    // The scheduler alone knows no memory of GPUs, and draws among those that have one free.
    expect(["a100", "l4", "slice", "v100"]).toContain(await nodeOf("fifth"));
  });

  test.for(["kubeadm", "k3s", "embedded"].map((name) => `examples/scheduler/${name}.yaml`))(
    "a real kube-scheduler takes %s",
    async (file) => {
      await using folder = await temporaryFolder();
      const dir = folder.path;
      const caFile = path.join(dir, "ca.crt");
      writeFileSync(caFile, cert);
      const { kubeScheduler = "" } = findClusterParts(readPartsConfig());
      const layout = controlPlaneLayoutOf(dir);
      const kubeconfig = path.join(dir, "kubeconfig");
      const cluster = { name: "c", cluster: { server: "https://127.0.0.1:1" } };
      const context = { name: "c", context: { cluster: "c", user: "" } };
      const given = { apiVersion: "v1", kind: "Config", clusters: [cluster], contexts: [context] };
      writeFileSync(kubeconfig, JSON.stringify({ ...given, "current-context": "c" }));
      const config = exampleConfig(file, 8443, caFile);
      const clientConnection = { ...config.clientConnection, kubeconfig };
      writeFileSync(layout.schedulerConfig, JSON.stringify({ ...config, clientConnection }));
      const written = path.join(dir, "written.yaml");
      const args = [`--config=${layout.schedulerConfig}`, `--write-config-to=${written}`, "--secure-port=0"];
      await promisify(execFile)(kubeScheduler, args, { timeout: 60_000 });
      expect(parse(readFileSync(written, "utf8")).extenders).toMatchObject([
        { ignorable: true, nodeCacheCapable: true, weight: 5, httpTimeout: "1s" },
      ]);
    },
  );
});

function post(port: number, verb: string, body: object): Promise<string> {
  return new Promise((resolve, reject) => {
    const data = JSON.stringify(body);
    const headers = { "content-length": Buffer.byteLength(data) };
    request({ host: "127.0.0.1", port, path: `/${verb}`, method: "POST", ca: cert, headers }, (response) =>
      text(response).then(resolve, reject),
    )
      .once("error", reject)
      .end(data);
  });
}
