/** Labels of Nodes and Hosts, with the real API server: server-side apply decides which manager owns a label. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Host } from "../../../src/api/host.ts";
import { HOSTS } from "../../../src/api/kinds.ts";
import { CLUSTER_ROLES, NODES, RESOURCE_SLICES } from "../../../src/kube/kinds.ts";
import type { Kind, KubeObject } from "../../../src/kube/types.ts";
import type { Node, ResourceSlice } from "../../../src/kube/workload-objects.ts";
import { must } from "../../../test/bed/must.ts";
import { registerHost } from "../../../test/bed/scripted-host.ts";
import { until } from "../../../test/bed/until.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { type Bench, startBench } from "../../../test/controller/bench.ts";

const OURS = /^(metalbridge\.dev|flexinfer\.ai)\//;
const GFD = {
  "nvidia.com/gpu.product": "NVIDIA-L40S",
  "nvidia.com/gpu.memory": "46068",
  "nvidia.com/gpu.count": "2",
  "nvidia.com/gpu.compute.major": "8",
  "nvidia.com/gpu.compute.minor": "9",
};
let bench: Bench;
const warnings: string[] = [];

beforeAll(async () => {
  const log = { ...quietLog, warn: (_: unknown, text: string) => warnings.push(text) };
  bench = await startBench({ log: { ...log, child: () => log } as typeof quietLog });
});
afterAll(() => bench?.[Symbol.asyncDispose]());

async function addNode(name: string, labels: Record<string, string>, gpus?: string): Promise<void> {
  must(await bench.client.create(NODES, { metadata: { name, labels } } as Node));
  if (gpus !== undefined) await offer(name, gpus);
}

async function offer(name: string, gpus: string): Promise<void> {
  const resources = { cpu: "8", memory: "64Gi", "nvidia.com/gpu": gpus };
  const set = (path: string) => ({ op: "add", path: `/status/${path}`, value: resources }) as const;
  must(
    await bench.client.jsonPatch(NODES, { name }, [set("capacity"), set("allocatable")], {
      subresource: "status",
    }),
  );
}

const label = (name: string, labels: Record<string, string | null>) =>
  bench.objects.patch("", `nodes/${name}`, { metadata: { labels } });

/** Waits until the object has exactly these labels of ours, without the prefix metalbridge.dev. */
const labeled = (kind: Kind<KubeObject>, name: string, expected: Record<string, string>) =>
  bench.objects.until("", `${kind.plural}/${name}`, ({ metadata: { labels = {} } }: KubeObject) => {
    const ours = Object.entries(labels).filter(([key]) => OURS.test(key));
    const named = ours.map(([key, value]) => [key.replace("metalbridge.dev/", ""), value]);
    expect(Object.fromEntries(named)).toEqual(expected);
  });

const L40S = {
  "gpu.vendor": "NVIDIA",
  "gpu.vram": "44Gi",
  "gpu.arch": "sm_89",
  "gpu.int4": "true",
  "gpu.count": "2",
  "device-class": "nvidia-l40s-x2",
};

test("labels of a node appear, change and vanish with its GPUs, and those of other managers stay", async () => {
  await addNode("gpu-1", { ...GFD, "example.com/owner": "me" }, "2");
  await addNode("cpu-1", {});
  await labeled(NODES, "gpu-1", L40S);
  await label("gpu-1", { "nvidia.com/gpu.count": "1" });
  await offer("gpu-1", "1");
  await labeled(NODES, "gpu-1", { ...L40S, "gpu.count": "1", "device-class": "nvidia-l40s" });
  await label("gpu-1", { "metalbridge.dev/gpu.arch": "ada" });
  await offer("gpu-1", "2");
  await label("gpu-1", { "nvidia.com/gpu.count": "2" });
  await labeled(NODES, "gpu-1", { ...L40S, "gpu.arch": "ada" });
  // The user's label is removed, and ours returns.
  await label("gpu-1", { "metalbridge.dev/gpu.arch": null });
  await labeled(NODES, "gpu-1", L40S);
  await label("gpu-1", { "metalbridge.dev/gpu.arch": "ada" });
  await offer("gpu-1", "0");
  await labeled(NODES, "gpu-1", { "gpu.arch": "ada" });
  expect(must(await bench.client.get(NODES, { name: "gpu-1" })).metadata.labels).toMatchObject({
    ...GFD,
    "nvidia.com/gpu.count": "2",
    "example.com/owner": "me",
  });
  await labeled(NODES, "cpu-1", {});
});

test("labels follow the ResourceSlices of a node", async () => {
  await addNode("dra-1", {});
  const attributes = {
    type: { string: "gpu" },
    productName: { string: "NVIDIA L40S" },
    cudaComputeCapability: { version: "8.9.0" },
  };
  const device = (name: string) => ({ name, attributes, capacity: { memory: { value: "46068Mi" } } });
  const pool = { name: "dra-1", generation: 1, resourceSliceCount: 1 };
  const slice: ResourceSlice = {
    metadata: { name: "dra-1-gpu" },
    spec: { driver: "gpu.nvidia.com", nodeName: "dra-1", pool, devices: [device("gpu-0"), device("gpu-1")] },
  };
  must(await bench.client.create(RESOURCE_SLICES, slice));
  await labeled(NODES, "dra-1", L40S);
  must(await bench.client.remove(RESOURCE_SLICES, { name: "dra-1-gpu" }));
  await labeled(NODES, "dra-1", {});
});

test("a host is labeled, a new prefix replaces the old one, and a missing right is logged once", async () => {
  await registerHost(bench.client, "mac-1");
  const chip = { op: "add", path: "/status/info/chip", value: "Apple M4 Max" } as const;
  const cores = { op: "add", path: "/status/info/gpuCores", value: 40 } as const;
  must(
    await bench.client.jsonPatch<Host>(HOSTS, { name: "mac-1" }, [chip, cores], { subresource: "status" }),
  );
  const apple = {
    "gpu.vendor": "Apple",
    "gpu.vram": "96Gi",
    "gpu.arch": "apple-m4",
    "gpu.count": "1",
    "device-class": "apple-m4-max-40",
  };
  await labeled(HOSTS, "mac-1", apple);
  await offer("gpu-1", "2");
  await labeled(NODES, "gpu-1", { ...L40S, "gpu.arch": "ada" });

  const { rules = [] } = must(await bench.client.get(CLUSTER_ROLES, { name: "metalbridge-controller" }));
  const mayPatch = ({ resources, verbs }: (typeof rules)[number]) =>
    resources?.includes("nodes") === true && verbs.includes("patch");
  const without = { rules: rules.filter((rule) => !mayPatch(rule)) };
  expect(without.rules.length).toBe(rules.length - 1);
  await bench.objects.patch("", "clusterroles/metalbridge-controller", without);
  await bench.restartController(undefined, { labelPrefix: "flexinfer.ai" });
  const renamed = Object.entries(apple).map(([key, value]) => [`flexinfer.ai/${key}`, value]);
  await labeled(HOSTS, "mac-1", Object.fromEntries(renamed));
  await until(() => expect(warnings.filter((text) => text.includes("may not label Nodes"))).toHaveLength(1));
  await addNode("gpu-2", GFD, "2");
  await label("gpu-1", { "nvidia.com/gpu.count": "1" });
  await registerHost(bench.client, "mac-2");
  must(await bench.client.jsonPatch<Host>(HOSTS, { name: "mac-2" }, [chip], { subresource: "status" }));
  await bench.objects.until("", "hosts/mac-2", ({ metadata: { labels = {} } }: KubeObject) =>
    expect(labels["flexinfer.ai/gpu.arch"]).toBe("apple-m4"),
  );
  await labeled(NODES, "gpu-2", {});
  expect(warnings.filter((text) => text.includes("may not label"))).toHaveLength(1);
});
