/** The real kwok: nodes without machines, and pods on them that follow their annotations. No kubelet, no container, no traffic. */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findClusterParts } from "../../local/control-plane/parts.ts";
import { tailOf } from "../../local/control-plane/process/log-tail.ts";
import { startWatched } from "../../local/control-plane/process/watched-child.ts";
import { findKwok } from "../../scripts/setup/go-programs.mjs";
import { type PodScript, renderStages, scriptAnnotations, storageClasses } from "./kwok-stages.ts";
import { type Objects, objectsOf } from "./objects.ts";
import { until } from "./until.ts";

export interface SimulatedNode {
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly taints?: readonly { readonly key: string; readonly value?: string; readonly effect: string }[];
  /** Beside or instead of 32 cores, 128Gi of memory and 110 pods: { "nvidia.com/gpu": "8" }. */
  readonly capacity?: Readonly<Record<string, string>>;
}

export interface SimulatedNodes extends AsyncDisposable {
  /** Resolves when pods can be bound to them. */
  readonly add: (...nodes: readonly SimulatedNode[]) => Promise<void>;
  /**
   * From now on every new pod of the namespace, with these labels, gets the annotations of this script: for pods of others,
   * such as a controller's Jobs. A test can also set `scriptAnnotations` itself, and change them later.
   */
  readonly direct: (
    namespace: string,
    script: PodScript,
    labels?: Readonly<Record<string, string>>,
  ) => Promise<void>;
}

export interface KwokOptions {
  readonly kubeconfig: string;
  /** Of its own, for configuration and log. */
  readonly dir: string;
  /** The nodes that it plays, by their labels; all by default. */
  readonly nodeSelector?: string;
  /** Of the nodes' Leases, which kwok renews four times as often. */
  readonly leaseSeconds?: number;
}

/** Undefined where kwok and kube-scheduler are installed, else the reason for skipping a test. */
export function whyNoSimulatedNodes(): string | undefined {
  try {
    const { kubeScheduler, kubeControllerManager } = findClusterParts(readPartsConfig());
    if (kubeScheduler !== undefined && kubeControllerManager !== undefined && findKwok() !== undefined)
      return undefined;
    return "needs kwok and kube-scheduler: npm run setup -- --for test";
  } catch {
    return "the control plane's programs are not installed: npm run setup";
  }
}

/** Resolves when it has been started; its first nodes show that it works. */
export async function startKwok(options: KwokOptions): Promise<SimulatedNodes> {
  const { kubeconfig, dir, nodeSelector, leaseSeconds = 40 } = options;
  const program = findKwok();
  if (program === undefined) throw new Error(whyNoSimulatedNodes());
  const objects = objectsOf(kubeconfig);
  await objects.apply(...storageClasses());
  mkdirSync(dir, { recursive: true });
  const config = path.join(dir, "stages.yaml");
  writeFileSync(config, renderStages());
  const logFile = path.join(dir, "kwok.log");
  const kwok = startWatched({
    name: "kwok",
    program,
    args: [
      `--kubeconfig=${kubeconfig}`,
      `--config=${config}`,
      ...(nodeSelector === undefined
        ? ["--manage-all-nodes"]
        : [`--manage-nodes-with-label-selector=${nodeSelector}`]),
      `--node-lease-duration-seconds=${leaseSeconds}`,
      // Apart from the cluster addresses of Services.
      "--cidr=10.128.0.1/16",
      "--node-ip=10.127.0.1",
    ],
    env: {},
    cwd: dir,
    logFile,
    graceMs: 2_000,
    orphanGraceMs: 1_000,
  });
  return {
    add: async (...nodes) => {
      await Promise.all(nodes.map((node) => objects.create(nodeObject(node))));
      const names = new Set(nodes.map(({ name }) => name));
      await objects.until("", "nodes", (found) => {
        if (areUsable(found, names)) return;
        const logged = `the end of kwok's log:\n${tailOf(logFile, 2_000)}`;
        throw new Error(`${names.size} nodes are not ready; ${logged}`);
      });
    },
    direct: (namespace, script, labels = {}) => direct(objects, namespace, script, labels),
    [Symbol.asyncDispose]: async () => {
      objects[Symbol.dispose]();
      await kwok.stop();
    },
  };
}

function nodeObject({ name, labels = {}, taints = [], capacity = {} }: SimulatedNode): object {
  const resources = { cpu: "32", memory: "128Gi", "ephemeral-storage": "500Gi", pods: "110", ...capacity };
  const version = "v1.36.3";
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name,
      labels: {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        ...labels,
      },
    },
    spec: { taints },
    status: {
      capacity: resources,
      allocatable: resources,
      nodeInfo: {
        architecture: "amd64",
        operatingSystem: "linux",
        kubeletVersion: version,
        kubeProxyVersion: "",
        bootID: "",
        machineID: "",
        systemUUID: "",
        kernelVersion: "kwok",
        osImage: "kwok",
        containerRuntimeVersion: "kwok",
      },
    },
  };
}

interface NodeSeen {
  readonly metadata: { readonly name: string };
  readonly spec: { readonly taints?: readonly { readonly key: string }[] };
}

/** kube-controller-manager takes the taint of a new node away once kwok has made it ready. */
function areUsable(nodes: readonly NodeSeen[], names: ReadonlySet<string>): boolean {
  const isTainted = ({ spec }: NodeSeen) =>
    (spec.taints ?? []).some(({ key }) => key === "node.kubernetes.io/not-ready");
  return nodes.filter((node) => names.has(node.metadata.name) && !isTainted(node)).length === names.size;
}

async function direct(
  objects: Objects,
  namespace: string,
  script: PodScript,
  labels: Readonly<Record<string, string>>,
): Promise<void> {
  const name = `direct-${namespace}-${Object.values(labels).join("-")}`.replace(/-$/, "");
  const annotations = scriptAnnotations(script);
  const celMap = Object.entries(annotations).map((entry) =>
    entry.map((text) => JSON.stringify(text)).join(": "),
  );
  const apiVersion = "admissionregistration.k8s.io/v1";
  const policy = {
    apiVersion,
    kind: "MutatingAdmissionPolicy",
    metadata: { name },
    spec: {
      failurePolicy: "Fail",
      reinvocationPolicy: "Never",
      matchConstraints: {
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
        objectSelector: { matchLabels: labels },
        resourceRules: [
          { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods"] },
        ],
      },
      mutations: [
        {
          patchType: "ApplyConfiguration",
          applyConfiguration: {
            expression: `Object{metadata: Object.metadata{annotations: {${celMap.join(", ")}}}}`,
          },
        },
      ],
    },
  };
  const binding = {
    apiVersion,
    kind: "MutatingAdmissionPolicyBinding",
    metadata: { name },
    spec: { policyName: name },
  };
  await objects.apply(policy, binding);
  // Passes the restricted level, which the namespace may enforce.
  const securityContext = { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } };
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace, labels },
    spec: {
      securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
      containers: [{ name: "probe", image: "probe", securityContext }],
    },
  };
  // The namespace's default ServiceAccount may still be missing.
  await until(
    async () => {
      const made = await objects.create(pod, { dryRun: true });
      const entries = Object.entries(annotations);
      if (!entries.every(([key, value]) => made.metadata.annotations?.[key] === value))
        throw new Error(`policy ${name} is not in force`);
    },
    { everyMs: 100 },
  );
}
