/** The chart on a real node: our programs in containers of its image, installed by the real Helm. */
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { expect } from "vitest";
import { OUR_REPOSITORY } from "../../scripts/images/for-tests.ts";
import { PODS } from "../../src/kube/kinds.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { ctr } from "../bed/node/containerd.ts";
import type { RealNode } from "../bed/node/node.ts";
import { nodeParts, whyNoRealNode } from "../bed/node/parts.ts";
import { localVolume } from "../bed/node/volumes.ts";
import type { Objects } from "../bed/objects.ts";
import { question } from "../bed/services.ts";
import { CHART, type Helm, helmIn, helmProgram, NAMESPACE, needsHelm } from "../chart/helm.ts";
import { type RealCluster, startRealCluster } from "../cluster/node.ts";
import { temporaryFolder } from "../fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { startBadOrigin } from "../integration/bad-origin.ts";
import { served } from "./bed.ts";

export const whyNoChart = whyNoRealNode() ?? (helmProgram === undefined ? needsHelm.trim() : undefined);

export interface ChartBed extends AsyncDisposable {
  readonly cluster: RealCluster;
  readonly kubectl: RealCluster["kubectl"];
  readonly helm: Helm;
  readonly node: RealNode;
  /** Until every pod is ready. */
  readonly install: (...args: readonly string[]) => Promise<string>;
  readonly upgrade: (chart: string, ...args: readonly string[]) => Promise<string>;
  /** The chart as a package of another version. */
  readonly packaged: (version: string) => Promise<string>;
  /** Another name for an image of the node. */
  readonly tagImage: (reference: string, tag: string) => Promise<void>;
  /** A Model and an InferenceService of one name. Resolves when that is Ready. */
  readonly serve: (name: string) => Promise<void>;
  /** URL of the service's ClusterIP. */
  readonly url: (service: string, namespace?: string) => Promise<string>;
  /** One question from the node, through the ClusterIP. */
  readonly ask: (service: string) => Promise<string>;
  readonly pods: (namespace: string, selector: string) => Promise<readonly Pod[]>;
}

/** Nothing is installed yet. The namespaces of Metalbridge and of the services enforce the restricted Pod Security Standard. */
export async function startChartBed(): Promise<ChartBed> {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await temporaryFolder()).path;
  const cluster = stack.use(await startRealCluster({ crds: false }));
  const { kubeconfig, kubectl, objects, network } = cluster;
  const node = cluster.node("node-1");
  const weights = path.join(folder, "tiny.gguf");
  await writeTinyGguf(weights);
  const { url: origin } = stack.use(await startBadOrigin(await readFile(weights), 0, network.gateway));
  await localVolume(objects, node, { size: "4Gi" });
  await objects.createNamespace(NAMESPACE);
  for (const namespace of [NAMESPACE, "default"]) await enforce(objects, namespace, "restricted");
  const helm = helmIn(folder, kubeconfig);
  const values = [
    "--set",
    `image.repository=${OUR_REPOSITORY},controller.allowNetworks={10.78.0.0/16},benchmarks.mode=Off`,
  ];
  const flags = ["-n", NAMESPACE, "--wait", "--timeout=120s"];
  const pods: ChartBed["pods"] = async (namespace, selector) => {
    return objects.list(PODS, selector, namespace);
  };
  /** With what the pods say, where they do not get ready. */
  const explained = (helming: Promise<string>) =>
    helming.catch(async (error) => {
      throw new Error(`${error}\n${await kubectl(["get", "pods,events", "-A", "-o", "wide"])}`);
    });
  const url: ChartBed["url"] = async (service, namespace = "default") => {
    const { spec } = await objects.get(namespace, `service/${service}`);
    return `http://${spec.clusterIP}:${spec.ports[0].port}`;
  };
  const kept = stack.move();
  return {
    cluster,
    kubectl,
    helm,
    node,
    pods,
    url,
    install: (...args) => explained(helm("install", "metalbridge", CHART, ...flags, ...values, ...args)),
    upgrade: (chart, ...args) => helm("upgrade", "metalbridge", chart, ...flags, "--reuse-values", ...args),
    packaged: async (version) => {
      const versions = ["--version", version, "--app-version", version];
      await helm("package", CHART, ...versions, "--destination", folder);
      return path.join(folder, `metalbridge-${version}.tgz`);
    },
    tagImage: async (reference, tag) => {
      await ctr(nodeParts(), node.folder, "images", "tag", "--force", reference, tag);
    },
    serve: async (name) => {
      await objects.apply(...served(name, origin));
      const isReady = (service?: { readonly status?: { readonly phase?: string } }) =>
        expect(service?.status?.phase).toBe("Ready");
      await objects.until("default", `isvc/${name}`, isReady).catch(async (error) => {
        const seen = await kubectl(["get", "isvc,models,pods,pvc,events", "-o", "yaml"]);
        throw new Error(`${error}\n${seen}`);
      });
    },
    ask: async (service) => {
      const target = `${await url(service)}/v1/chat/completions`;
      const asked = question({ max_tokens: 8 });
      return node.run("curl", "-sS", "-m", "20", "--fail-with-body", target, "-d", asked);
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** What Linux says of a process: whose it is, its capabilities, and whether it can write to its root. */
export function confinementOf(pid: number) {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const field = (name: string) => new RegExp(`^${name}:\\t(\\S+)`, "m").exec(status)?.[1];
  const mounts = readFileSync(`/proc/${pid}/mountinfo`, "utf8").split("\n");
  const root = mounts.map((line) => line.split(" ")).find(([, , , , at]) => at === "/");
  return {
    user: field("Uid"),
    capabilities: field("CapEff"),
    noNewPrivileges: field("NoNewPrivs"),
    seccomp: field("Seccomp"),
    root: root?.[5]?.split(",")[0],
  };
}

export const CONFINED = {
  user: "65532",
  capabilities: "0000000000000000",
  noNewPrivileges: "1",
  // A filter.
  seccomp: "2",
  root: "ro",
};

/** The Pod Security Standard of a namespace. */
export async function enforce(
  objects: Objects,
  namespace: string,
  level: "restricted" | "privileged",
): Promise<void> {
  const labels = { "pod-security.kubernetes.io/enforce": level };
  await objects.patch("", `namespace/${namespace}`, { metadata: { labels } });
}
