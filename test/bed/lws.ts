/**
 * The real controller of LeaderWorkerSet with the definitions, rights, webhooks and configuration of the chart, outside the
 * cluster: it makes StatefulSets, whose pods kube-controller-manager creates.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { parse, stringify } from "yaml";
import { findLws } from "../../scripts/setup/go-programs.mjs";
import { NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { createCertificate } from "../../src/crypto/certificate.ts";
import { type ChartObject, helmIn, helmProgram, needsHelm, render } from "../chart/helm.ts";
import { type BesideCluster, startClusterProgram } from "./cluster-program.ts";
import { writeAccountKubeconfig } from "./identity.ts";
import { objectsOf } from "./objects.ts";
import { freePort } from "./ports.ts";

const NAME = "metalbridge-lws";
const KIND = "leaderworkersets.leaderworkerset.x-k8s.io";
const UNUSED_KIND = "disaggregatedsets.disaggregatedset.x-k8s.io";

/** Undefined if LeaderWorkerSet is installed, else the reason for skipping a test. */
export function whyNoLws(): string | undefined {
  if (helmProgram === undefined) return needsHelm.trim();
  return findLws() === undefined ? "needs LeaderWorkerSet: npm run setup -- --for system" : undefined;
}

/** Installs what the chart brings, and resolves once the controller and its webhooks work. */
export async function startLws({ kubeconfig, dir }: BesideCluster): Promise<AsyncDisposable> {
  const program = findLws();
  if (program === undefined) throw new Error(whyNoLws());
  mkdirSync(dir, { recursive: true });
  const [port, healthPort] = [await freePort(), await freePort()];
  const { key, cert } = createCertificate({ name: "lws", hosts: ["127.0.0.1"] });
  writeFileSync(path.join(dir, "tls.key"), key);
  writeFileSync(path.join(dir, "tls.crt"), cert);
  const rendered = await render(helmIn(dir), "--set", "leaderWorkerSet.enabled=true,crds.install=false");
  const ours = rendered.filter(({ metadata }) => [NAME, KIND, UNUSED_KIND].includes(metadata.name));
  const config = path.join(dir, "config.yaml");
  writeFileSync(config, configurationOf(ours, dir, port, healthPort));
  const definition = path.join(dir, "definition.yaml");
  writeFileSync(
    definition,
    ours
      .filter(({ metadata }) => metadata.name === KIND)
      .map((one) => stringify(one))
      .join(""),
  );
  // First, because a pod that no webhook has changed would never become one of a group.
  using objects = objectsOf(kubeconfig);
  await objects.apply(
    ...ours.filter(({ kind }) => kind.includes("Webhook")).map((one) => reaching(one, port, cert)),
  );
  const rights = ours.filter(({ kind }) => /^(ServiceAccount|ClusterRole|ClusterRoleBinding)$/.test(kind));
  await objects.apply(...rights, ...ours.filter(({ metadata }) => metadata.name === UNUSED_KIND));
  await objects.install(definition);
  const file = path.join(dir, "account.kubeconfig");
  await writeAccountKubeconfig({ kubeconfig }, { name: NAME, namespace: NAMESPACE_SYSTEM, file });
  const args = [`--kubeconfig=${file}`, `--config=${config}`];
  return startClusterProgram({ name: "lws", program, args, dir, healthPort });
}

/** That of the chart, with the ports and the folder of this process. */
function configurationOf(ours: readonly ChartObject[], certDir: string, port: number, healthPort: number) {
  const map = ours.find(({ kind }) => kind === "ConfigMap") as
    | (ChartObject & { readonly data: Files })
    | undefined;
  return stringify({
    ...parse(map?.data["config.yaml"] ?? ""),
    webhook: { port, host: "127.0.0.1", certDir },
    health: { healthProbeBindAddress: `127.0.0.1:${healthPort}` },
  });
}

interface Files {
  readonly "config.yaml": string;
}

interface Webhooks {
  readonly webhooks: readonly {
    readonly clientConfig: { readonly service: { readonly path: string } };
  }[];
}

/** Webhooks of the chart, which name a Service, with the address of this process instead. */
function reaching(configuration: ChartObject, port: number, cert: string): object {
  const { webhooks, ...rest } = configuration as ChartObject & Webhooks;
  const caBundle = Buffer.from(cert).toString("base64");
  return {
    ...rest,
    webhooks: webhooks.map(({ clientConfig, ...webhook }) => ({
      ...webhook,
      clientConfig: { url: `https://127.0.0.1:${port}${clientConfig.service.path}`, caBundle },
    })),
  };
}
