/** The real controller of LeaderWorkerSet, outside the cluster: it makes StatefulSets, whose pods kube-controller-manager creates. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { parseAllDocuments } from "yaml";
import { findLwsDefinitions } from "../../scripts/setup/definitions.mjs";
import { findLws } from "../../scripts/setup/go-programs.mjs";
import { createCertificate } from "../../src/crypto/certificate.ts";
import { type BesideCluster, startClusterProgram } from "./cluster-program.ts";
import { objectsOf } from "./objects.ts";
import { freePort } from "./ports.ts";

/** Undefined if LeaderWorkerSet is installed, else the reason for skipping a test. */
export function whyNoLws(): string | undefined {
  const isInstalled = findLws() !== undefined && findLwsDefinitions() !== undefined;
  return isInstalled ? undefined : "needs LeaderWorkerSet: npm run setup -- --for system";
}

/** Installs the kind, and resolves once its controller and its webhooks work. */
export async function startLws({ kubeconfig, dir }: BesideCluster): Promise<AsyncDisposable> {
  const program = findLws();
  const definitions: string | undefined = findLwsDefinitions();
  if (program === undefined || definitions === undefined) throw new Error(whyNoLws());
  const crd = path.join(definitions, "leaderworkerset.x-k8s.io_leaderworkersets.yaml");
  mkdirSync(dir, { recursive: true });
  const [port, healthPort] = [await freePort(), await freePort()];
  const { key, cert } = createCertificate({ name: "lws", hosts: ["127.0.0.1"] });
  writeFileSync(path.join(dir, "tls.key"), key);
  writeFileSync(path.join(dir, "tls.crt"), cert);
  const config = path.join(dir, "config.json");
  writeFileSync(config, JSON.stringify(configuration(dir, port, healthPort)));
  const manifests = readFileSync(path.join(definitions, "manifests.yaml"), "utf8");
  // First, because a pod that no webhook has changed would never become one of a group. No test uses the other kind.
  using objects = objectsOf(kubeconfig);
  await objects.apply(...webhooksOf(manifests, port, cert), UNUSED_KIND);
  await objects.install(crd);
  return startClusterProgram({
    name: "lws",
    program,
    args: [`--kubeconfig=${kubeconfig}`, `--config=${config}`, "--leader-elect=false"],
    dir,
    healthPort,
  });
}

function configuration(certDir: string, port: number, healthPort: number): object {
  return {
    apiVersion: "config.lws.x-k8s.io/v1alpha1",
    kind: "Configuration",
    internalCertManagement: { enable: false },
    webhook: { port, host: "127.0.0.1", certDir },
    metrics: { bindAddress: "0" },
    health: { healthProbeBindAddress: `127.0.0.1:${healthPort}` },
    leaderElection: { leaderElect: false },
  };
}

interface WebhookConfiguration {
  readonly webhooks: readonly {
    readonly name: string;
    readonly objectSelector?: object;
    readonly clientConfig: { readonly service: { readonly path: string } };
  }[];
}

/** The webhooks of the module, which name a Service, with the address of this process instead. */
function webhooksOf(manifests: string, port: number, cert: string): object[] {
  return parseAllDocuments(manifests).map((document) => {
    const { webhooks, ...rest } = document.toJS() as WebhookConfiguration;
    return {
      ...rest,
      webhooks: webhooks
        .filter(({ name }) => !name.includes("disaggregatedset"))
        .map(({ clientConfig, ...webhook }) => ({
          ...webhook,
          clientConfig: {
            url: `https://127.0.0.1:${port}${clientConfig.service.path}`,
            caBundle: Buffer.from(cert).toString("base64"),
          },
          objectSelector: webhook.name.includes("pod") ? OF_GROUPS : webhook.objectSelector,
        })),
    };
  });
}

const OF_GROUPS = { matchExpressions: [{ key: "leaderworkerset.sigs.k8s.io/name", operator: "Exists" }] };

const UNUSED_KIND = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: {
    name: "disaggregatedsets.disaggregatedset.x-k8s.io",
    annotations: { "api-approved.kubernetes.io": "unapproved, for tests" },
  },
  spec: {
    group: "disaggregatedset.x-k8s.io",
    scope: "Namespaced",
    names: { plural: "disaggregatedsets", singular: "disaggregatedset", kind: "DisaggregatedSet" },
    versions: [
      {
        name: "v1",
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
      },
    ],
  },
};
