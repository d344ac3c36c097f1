/** Installs both gateways in a cluster of real nodes as their charts do, with a Gateway for our services. */
import { parseAllDocuments } from "yaml";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import { type Kubectl, listOf } from "../../bed/kubectl.ts";
import { until } from "../../bed/until.ts";
import type { NameServer } from "./dns.ts";
import { IMAGES, type Manifests } from "./programs.ts";

const ENVOY_GATEWAY_NAMESPACE = "envoy-gateway-system";
const AI_GATEWAY_NAMESPACE = "envoy-ai-gateway-system";
const ENVOY_GATEWAY = { name: "envoy-gateway", namespace: ENVOY_GATEWAY_NAMESPACE };
const AI_GATEWAY = { name: "ai-gateway-controller", namespace: AI_GATEWAY_NAMESPACE };
export const GATEWAY = { name: "ai", namespace: "infra" };
/** Envoy listens on it too, because it needs no root for it. */
const PORT = 8_080;

interface Manifest {
  readonly kind: string;
  readonly spec: { readonly template: { readonly spec: object } };
}

/** The name server that the pods use in place of the cluster's. */
export interface Dns {
  readonly host: string;
  readonly server: NameServer;
}

/** Resolves once both controllers are ready. */
export async function installGateways(kubectl: Kubectl, manifests: Manifests, dns: Dns): Promise<void> {
  for (const folder of manifests.definitions) await kubectl(["apply", "--server-side", "-R", "-f", folder]);
  await kubectl(["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]);
  for (const namespace of [ENVOY_GATEWAY_NAMESPACE, AI_GATEWAY_NAMESPACE, GATEWAY.namespace])
    await kubectl(["create", "namespace", namespace]);
  const objects = [manifests.envoyGateway, manifests.aiGateway].flatMap((text) =>
    parseAllDocuments(text).flatMap((document) => (document.toJS() ?? []) as Manifest),
  );
  const last = objects.filter(({ kind }) => kind === "Deployment");
  const rest = objects.filter(({ kind }) => kind !== "Deployment");
  await until(() => kubectl(["apply", "-f", "-"], listOf(...rest)));
  await kubectl([
    ...["wait", "--for=condition=Complete", "--timeout=120s", "job", "--all"],
    ...["-n", ENVOY_GATEWAY_NAMESPACE],
  ]);
  const names = [AI_GATEWAY, ENVOY_GATEWAY].map((service) => addressOf(kubectl, service));
  dns.server.set(new Map(await Promise.all(names)));
  const deployments = last.map(({ spec: { template, ...others }, ...deployment }) => {
    const spec = { ...template.spec, ...dnsOf(dns) };
    return { ...deployment, spec: { ...others, template: { ...template, spec } } };
  });
  await kubectl(["apply", "-f", "-"], listOf(...deployments));
  for (const { name, namespace } of [AI_GATEWAY, ENVOY_GATEWAY])
    await kubectl(["rollout", "status", `deployment/${name}`, "-n", namespace, "--timeout=180s"]);
}

/** The class and the Gateway of our documentation. Its Envoy is the one of this machine. */
export async function createGateway(kubectl: Kubectl, dns: Dns): Promise<void> {
  const patch = { type: "StrategicMerge", value: { spec: { template: { spec: dnsOf(dns) } } } };
  const proxy = {
    apiVersion: "gateway.envoyproxy.io/v1alpha1",
    kind: "EnvoyProxy",
    metadata: { name: "proxy", namespace: GATEWAY.namespace },
    spec: {
      provider: {
        type: "Kubernetes",
        kubernetes: {
          envoyDeployment: { container: { image: IMAGES.envoy }, patch },
          envoyService: { type: "ClusterIP" },
        },
      },
    },
  };
  const ofClass = {
    apiVersion: "gateway.networking.k8s.io/v1",
    kind: "GatewayClass",
    metadata: { name: "eg" },
    spec: {
      controllerName: "gateway.envoyproxy.io/gatewayclass-controller",
      parametersRef: { group: "gateway.envoyproxy.io", kind: "EnvoyProxy", ...proxy.metadata },
    },
  };
  const gateway = {
    apiVersion: "gateway.networking.k8s.io/v1",
    kind: "Gateway",
    metadata: GATEWAY,
    spec: {
      gatewayClassName: "eg",
      listeners: [
        {
          ...{ name: "http", port: PORT, protocol: "HTTP" },
          allowedRoutes: { namespaces: { from: "All" } },
        },
      ],
    },
  };
  const clients = {
    apiVersion: "gateway.envoyproxy.io/v1alpha1",
    kind: "ClientTrafficPolicy",
    metadata: GATEWAY,
    spec: {
      targetRefs: [{ group: "gateway.networking.k8s.io", kind: "Gateway", name: GATEWAY.name }],
      connection: { bufferLimit: "50Mi" },
    },
  };
  await kubectl(["apply", "-f", "-"], listOf(proxy, ofClass, gateway, clients));
}

/** Where users send requests, and where its Envoy listens: a pod, which this machine reaches. */
export interface GatewayPlace {
  readonly address: string;
  readonly envoy: string;
}

/** Resolves once an Envoy with the processor of Envoy AI Gateway is ready. */
export async function untilServing(kubectl: Kubectl): Promise<GatewayPlace> {
  const { name, namespace } = GATEWAY;
  const selector = `gateway.envoyproxy.io/owning-gateway-name=${name}`;
  const podIP = await until(
    async () => {
      const args = ["get", "pods", "-n", ENVOY_GATEWAY_NAMESPACE, "-l", selector, "-o", "json"];
      const { items: all } = JSON.parse(await kubectl(args)) as { items: Pod[] };
      const items = all.filter((pod) => !isBeingDeleted(pod));
      const [pod, ...others] = items;
      const isReady = pod?.status?.conditions?.some(
        ({ type, status }) => type === "Ready" && status === "True",
      );
      const hasProcessor = JSON.stringify(pod?.spec ?? {}).includes(IMAGES.extproc);
      if (others.length === 0 && isReady === true && hasProcessor) return pod?.status?.podIP;
      throw new Error(`the Envoys of the Gateway: ${JSON.stringify(items.map(({ status }) => status))}`);
    },
    { everyMs: 500 },
  );
  const path = "jsonpath={.status.addresses[0].value}";
  const address = await kubectl(["get", "gateway", name, "-n", namespace, "-o", path]);
  return { address: `http://${address}:${PORT}`, envoy: `http://${podIP}:${PORT}` };
}

function dnsOf({ host }: Dns): object {
  return { dnsPolicy: "None", dnsConfig: { nameservers: [host] } };
}

async function addressOf(
  kubectl: Kubectl,
  { name, namespace }: Readonly<Record<"name" | "namespace", string>>,
) {
  const path = "jsonpath={.spec.clusterIP}";
  const address = await kubectl(["get", "service", name, "-n", namespace, "-o", path]);
  return [`${name}.${namespace}.svc.cluster.local`, address] as const;
}
