/** The real Karpenter with its simulated cloud: it creates Node objects of the given instance types for pods that find no node. */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { findKarpenterCrds } from "../../scripts/setup/definitions.mjs";
import { findKarpenter } from "../../scripts/setup/go-programs.mjs";
import { type BesideCluster, startClusterProgram } from "./cluster-program.ts";
import { objectsOf } from "./objects.ts";
import { freePort } from "./ports.ts";

const ZONE = "test-zone-a";

/** A kind of machine of the simulated cloud, and the NodePool that offers it. */
export interface NodeOffer {
  /** Name of the NodePool and of the instance type. */
  readonly name: string;
  /** Labels of the NodePool's nodes. */
  readonly labels: Readonly<Record<string, string>>;
  readonly resources: Readonly<Record<string, string>>;
  /** Price per hour. */
  readonly price: number;
  /** Maximum of each resource over all nodes of the pool. */
  readonly limits?: Readonly<Record<string, string>>;
}

/** Undefined if Karpenter is installed, else the reason for skipping a test. */
export function whyNoKarpenter(): string | undefined {
  const isInstalled = findKarpenter() !== undefined && findKarpenterCrds() !== undefined;
  return isInstalled ? undefined : "needs Karpenter: npm run setup -- --for system";
}

/** Resolves once Karpenter works. Its nodes become ready only if a kwok manages them. */
export async function startKarpenter(
  { kubeconfig, dir }: BesideCluster,
  offers: readonly NodeOffer[],
): Promise<AsyncDisposable> {
  const program = findKarpenter();
  const crds: string | undefined = findKarpenterCrds();
  if (program === undefined || crds === undefined) throw new Error(whyNoKarpenter());
  using objects = objectsOf(kubeconfig);
  await objects.install(crds);
  await objects.apply(NODE_CLASS, ...offers.map(nodePool));
  mkdirSync(dir, { recursive: true });
  const types = path.join(dir, "instance-types.json");
  writeFileSync(types, JSON.stringify(offers.map(instanceType)));
  const healthPort = await freePort();
  const karpenter = await startClusterProgram({
    name: "karpenter",
    program,
    args: [
      `--instance-types-file-path=${types}`,
      "--disable-leader-election=true",
      `--metrics-port=${await freePort()}`,
      `--health-probe-port=${healthPort}`,
      // Seconds by default, to collect pods that need nodes at the same time.
      "--batch-idle-duration=100ms",
    ],
    env: { KUBECONFIG: kubeconfig, SYSTEM_NAMESPACE: "kube-system" },
    dir,
    healthPort,
  });
  // Karpenter skips a pool that is not ready, and would use the next flavor.
  for (const { name } of offers)
    await objects.until("", `nodepool/${name}`, ({ status }) => {
      const conditions: readonly { type: string; status: string }[] = status?.conditions ?? [];
      if (!conditions.some((one) => one.type === "Ready" && one.status === "True"))
        throw new Error(`NodePool ${name} is not ready: ${JSON.stringify(conditions)}`);
    });
  return karpenter;
}

const NODE_CLASS = {
  apiVersion: "karpenter.kwok.sh/v1alpha1",
  kind: "KWOKNodeClass",
  metadata: { name: "simulated" },
  spec: {},
};

function nodePool({ name, labels, limits }: NodeOffer): object {
  return {
    apiVersion: "karpenter.sh/v1",
    kind: "NodePool",
    metadata: { name },
    spec: {
      template: {
        metadata: { labels },
        spec: {
          requirements: [{ key: "node.kubernetes.io/instance-type", operator: "In", values: [name] }],
          nodeClassRef: { group: "karpenter.kwok.sh", kind: "KWOKNodeClass", name: "simulated" },
        },
      },
      // The nodes of a test stay until it ends.
      disruption: { consolidationPolicy: "WhenEmpty", consolidateAfter: "Never" },
      limits,
    },
  };
}

function instanceType({ name, resources, price }: NodeOffer): object {
  const requirement = (key: string, value: string) => ({ key, operator: "In", values: [value] });
  return {
    name,
    offerings: [
      {
        Price: price,
        Available: true,
        Requirements: [
          requirement("karpenter.sh/capacity-type", "on-demand"),
          requirement("topology.kubernetes.io/zone", ZONE),
        ],
      },
    ],
    architecture: "amd64",
    operatingSystems: ["linux"],
    resources: { "ephemeral-storage": "500Gi", ...resources },
  };
}
