/**
 * Pods of flavors in front of the real schedulers: Karpenter with its simulated cloud, which creates a node of the first flavor that
 * the cloud has, and kube-scheduler, which allocates the devices of the first flavor that has free ones.
 */
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Flavor } from "../../../../src/api/flavors.ts";
import type { Model } from "../../../../src/api/model.ts";
import { flavorsOf } from "../../../../src/capacity/flavors/narrow.ts";
import type { Node, Pod, ResourceClaim } from "../../../../src/kube/workload-objects.ts";
import { type NodeOffer, startKarpenter, whyNoKarpenter } from "../../../../test/bed/karpenter.ts";
import { whyNoSimulatedNodes } from "../../../../test/bed/kwok.ts";
import type { Objects } from "../../../../test/bed/objects.ts";
import { deviceClassOfSize, devicesOf } from "../../../../test/bed/simulated-devices.ts";
import { type LinuxCluster, startLinuxCluster } from "../../../../test/cluster/linux-cluster.ts";
import { inputOf } from "../fixtures/workload-input.ts";
import { priorityClasses } from "../priorities.ts";
import { buildWorkload } from "../workload.ts";
import { withStage } from "./build.ts";
import { stageContext, stageOf } from "./stage.ts";

const why = whyNoSimulatedNodes() ?? whyNoKarpenter();
const NS = "team-a";
const PRODUCT = "nvidia.com/gpu.product";
const GPU = { "nvidia.com/gpu": "1" };

/** The cheapest machine is the last choice of every test, so that no price explains the order. */
const OFFERS: readonly NodeOffer[] = [
  { ...offer("gold", "NVIDIA-H100", 10), limits: GPU },
  { ...offer("silver", "NVIDIA-L40S", 5), limits: { "nvidia.com/gpu": "2" } },
  offer("bronze", "NVIDIA-A10", 1),
];

function offer(name: string, product: string, price: number): NodeOffer {
  const labels = { [PRODUCT]: product, "example.com/tier": name };
  return { name, labels, price, resources: { cpu: "16", memory: "64Gi", ...GPU } };
}

const modelWith = (flavors: Flavor[]) =>
  ({ spec: { source: "hf://org/m/m.gguf", flavors } }) as Pick<Model, "spec">;

function rendered(name: string, flavors: readonly Flavor[]) {
  const input = inputOf({
    service: { runtime: "generic", image: "engine:1" },
    model: { source: "hf://org/m/m.gguf" },
    weights: { claimName: "cache", folder: "k", file: "m.gguf" },
    replicas: 1,
    runtime: "generic",
  });
  const service = { ...input.service, metadata: { ...input.service.metadata, name } };
  const [first] = flavors;
  if (first === undefined) throw new Error("no flavor");
  const classes = new Set(flavors.flatMap(({ deviceClass }) => deviceClass ?? []));
  const stage = stageOf(flavors, first, stageContext(service.spec, undefined, classes, undefined));
  const { claimTemplate, ...flavored } = withStage(service, input.model, stage);
  const { deployment } = buildWorkload({ ...input, ...flavored });
  // The engine needs no weights here, and the pods no volume.
  const { volumes: _, initContainers: __, ...spec } = deployment.spec.template.spec;
  const containers = spec.containers.map((one) => ({ ...one, volumeMounts: [] }));
  const template = { ...deployment.spec.template, spec: { ...spec, containers } };
  return { claimTemplate, deployment: { ...deployment, spec: { ...deployment.spec, template } } };
}

describe.skipIf(why !== undefined)(`flavors (${why ?? "simulated cloud"})`, () => {
  let cluster: LinuxCluster;
  let karpenter: AsyncDisposable;
  let objects: Objects;

  beforeAll(async () => {
    // The driver's node has no room for pods that need GPUs of a device plugin.
    cluster = await startLinuxCluster([{ name: "devices-1" }]);
    objects = cluster.objects;
    await objects.createNamespace(NS);
    for (const one of priorityClasses()) await objects.apply(one);
    karpenter = await startKarpenter({ ...cluster, dir: path.join(cluster.dir, "karpenter") }, OFFERS);
  });
  afterAll(async () => {
    await karpenter?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  });

  const nodeOf = ({ spec }: Pod): Promise<Node> => objects.get("", `node/${spec.nodeName}`);
  /** The tiers of the nodes of all pods, once each pod has a node. */
  const tiersOf = async (name: string, count: number) => {
    const labelSelector = `metalbridge.dev/service=${name}`;
    const haveNodes = (items: readonly Pod[]) => {
      expect(items).toHaveLength(count);
      expect(items.filter(({ spec }) => spec.nodeName === undefined)).toEqual([]);
      return items;
    };
    const pods = await objects.until(NS, "pods", haveNodes, { labelSelector });
    const nodes = await Promise.all(pods.map(nodeOf));
    return nodes.map(({ metadata }) => metadata.labels?.["example.com/tier"]).sort();
  };
  const scale = (name: string, replicas: number) => objects.scale(NS, `deployment/${name}`, replicas);
  const flavor = (name: string, nodeSelector: Record<string, string>): Flavor => ({
    name,
    nodeSelector,
    limits: { "nvidia.com/gpu": 1 },
  });

  const h200 = flavor("h200", { [PRODUCT]: "NVIDIA-H200" });
  const gold = flavor("h100", { [PRODUCT]: "NVIDIA-H100", "example.com/tier": "gold" });
  const silver = flavor("l40s", { [PRODUCT]: "NVIDIA-L40S" });
  const bronze = flavor("a10", { [PRODUCT]: "NVIDIA-A10" });

  test("with several labels, Karpenter creates a node of the first flavor that the cloud has, and of the next when it is used up", async () => {
    const { deployment } = rendered("terms", [h200, gold, silver, bronze]);
    const { nodeAffinity } = deployment.spec.template.spec.affinity as { nodeAffinity: object };
    expect(Object.keys(nodeAffinity)).toEqual(["requiredDuringSchedulingIgnoredDuringExecution"]);
    await objects.apply(deployment);
    expect(await tiersOf("terms", 1)).toEqual(["gold"]);
    await scale("terms", 2);
    expect(await tiersOf("terms", 2)).toEqual(["gold", "silver"]);
  });

  test("with one label, preferences keep the same order", async () => {
    const { deployment } = rendered("label", [h200, silver, bronze]);
    await objects.apply(deployment);
    expect(await tiersOf("label", 1)).toEqual(["silver"]);
    await scale("label", 2);
    expect(await tiersOf("label", 2)).toEqual(["bronze", "silver"]);
  });

  test("with several required terms and preferences, Karpenter would use the last flavor, so no pod has both", async () => {
    const { deployment } = rendered("both", [h200, gold, silver, bronze]);
    const { affinity } = rendered("x", [h200, silver, bronze]).deployment.spec.template.spec;
    const { spec } = deployment.spec.template;
    const { nodeAffinity: preferences } = affinity as { nodeAffinity: object };
    const { nodeAffinity: terms } = spec.affinity as { nodeAffinity: object };
    const nodeAffinity = { ...preferences, ...terms };
    const template = { ...deployment.spec.template, spec: { ...spec, affinity: { nodeAffinity } } };
    await objects.patch("", "nodepool/silver", { spec: { limits: null } });
    await objects.apply({ ...deployment, spec: { ...deployment.spec, template } });
    expect(await tiersOf("both", 1)).toEqual(["bronze"]);
  });

  test("an instance type is what Karpenter creates, although another is cheaper", async () => {
    const typed: Flavor = {
      name: "typed",
      limits: { "nvidia.com/gpu": 1 },
      params: { instanceType: "silver" },
    };
    const { flavors = [] } = flavorsOf({}, modelWith([typed])) ?? {};
    await objects.apply(rendered("typed", flavors).deployment);
    expect(await tiersOf("typed", 1)).toEqual(["silver"]);
  });

  test("kube-scheduler allocates the devices of the first flavor that has free ones, and the claim names the flavor", async () => {
    for (const size of ["large", "small"]) await objects.apply(deviceClassOfSize(size));
    await objects.apply(devicesOf("devices-1", { a: "large", b: "small", c: "small" }));
    const flavors: Flavor[] = [
      { name: "one-large", deviceClass: "large.example.com" },
      { name: "two-small", deviceClass: "small.example.com", limits: { "nvidia.com/gpu": 2 } },
    ].map((one) => ({ limits: { "nvidia.com/gpu": 1 }, ...one }));
    const { deployment, claimTemplate } = rendered("devices", flavors);
    await objects.apply(claimTemplate ?? {});
    await objects.apply(deployment);
    const allocated = (count: number) =>
      objects.until(NS, "resourceclaims", (items: readonly ResourceClaim[]) => {
        const results = items.flatMap(({ status }) => status?.allocation?.devices?.results ?? []);
        const found = results.map(({ request, device }) => `${request} ${device}`).sort();
        expect(found).toHaveLength(count);
        return found;
      });
    expect(await allocated(1)).toEqual(["flavor/one-large a"]);
    await scale("devices", 2);
    expect(await allocated(3)).toEqual(["flavor/one-large a", "flavor/two-small b", "flavor/two-small c"]);
  });
});
