/** Definitions of kinds of other operators, for tests that apply objects of them: from the Go modules whose archives hold them. */
import { cpSync, existsSync } from "node:fs";
import { basename, join } from "node:path";
import { cacheDir } from "./cache.mjs";
import { findOnPath, run } from "./command.mjs";
import { fillFolder } from "./fill-folder.mjs";

/** For the chart's monitors and rules. */
export const { find: findMonitoringCrds, ensure: ensureMonitoringCrds } = definitions({
  folder: "monitoring-crds",
  operator: "the Prometheus operator",
  module: "github.com/prometheus-operator/prometheus-operator@v0.85.0",
  files: ["podmonitors", "servicemonitors", "prometheusrules"].map(
    (kind) => `example/prometheus-operator-crd/monitoring.coreos.com_${kind}.yaml`,
  ),
  without: "monitors and rules of the chart are not applied",
});

/** For Karpenter itself, with the node class of its simulated cloud. */
export const { find: findKarpenterCrds, ensure: ensureKarpenterCrds } = definitions({
  folder: "karpenter-crds",
  operator: "Karpenter",
  module: "sigs.k8s.io/karpenter@v1.14.0",
  files: [
    "pkg/apis/crds/karpenter.sh_nodepools.yaml",
    "pkg/apis/crds/karpenter.sh_nodeclaims.yaml",
    "pkg/apis/crds/karpenter.sh_nodeoverlays.yaml",
    "pkg/apis/crds/autoscaling.x-k8s.io_capacitybuffers.yaml",
    "kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml",
  ],
  without: "tests with Karpenter are skipped",
});

/** For services that name a queue of Kueue. */
export const { find: findKueueCrds, ensure: ensureKueueCrds } = definitions({
  folder: "kueue-crds",
  operator: "Kueue",
  module: "sigs.k8s.io/kueue@v0.15.0",
  files: ["config/components/crd/bases/kueue.x-k8s.io_workloads.yaml"],
  without: "tests with queues of Kueue are skipped",
});

/** For services that KEDA scales, with the metadata that its scalers require. */
export const { find: findKEDACrds, ensure: ensureKEDACrds } = definitions({
  folder: "keda-crds",
  operator: "KEDA",
  module: "github.com/kedacore/keda/v2@v2.21.0",
  files: ["config/crd/bases/keda.sh_scaledobjects.yaml", "schema/generated/scalers-schema.json"],
  without: "tests with KEDA are skipped",
});

/** For routes of services on Gateways of Envoy AI Gateway. */
export const { find: findAIGatewayCrds, ensure: ensureAIGatewayCrds } = definitions({
  folder: "ai-gateway-crds",
  operator: "Envoy AI Gateway",
  module: "github.com/envoyproxy/ai-gateway@v1.0.0",
  files: ["aigatewayroutes", "aiservicebackends"].map(
    (kind) => `manifests/charts/ai-gateway-crds-helm/templates/aigateway.envoyproxy.io_${kind}.yaml`,
  ),
  without: "tests with Envoy AI Gateway are skipped",
});
export const { find: findEnvoyGatewayCrds, ensure: ensureEnvoyGatewayCrds } = definitions({
  folder: "envoy-gateway-crds",
  operator: "Envoy Gateway",
  module: "github.com/envoyproxy/gateway@v1.8.1",
  files: ["backends", "backendtrafficpolicies"].map(
    (kind) => `charts/gateway-helm/charts/crds/crds/generated/gateway.envoyproxy.io_${kind}.yaml`,
  ),
  without: "tests with Envoy AI Gateway are skipped",
});
export const { find: findGatewayApiCrds, ensure: ensureGatewayApiCrds } = definitions({
  folder: "gateway-api-crds",
  operator: "the Gateway API",
  module: "sigs.k8s.io/gateway-api@v1.5.1",
  files: ["config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"],
  without: "tests with Envoy AI Gateway are skipped",
});

/** Returns `{ find, ensure }`; both return the folder with one file per definition, undefined where there is none. */
function definitions({ folder, operator, module, files, without }) {
  const title = `definitions of ${operator}`;
  const folderIn = (env) => join(cacheDir(env), folder, module.slice(module.indexOf("@") + 1));

  const find = (env = process.env) => (existsSync(folderIn(env)) ? folderIn(env) : undefined);

  const fetchFiles = async (progress, env) => {
    const go = findOnPath("go", env);
    const args = ["mod", "download", "-json", module];
    const settings = { env: { ...env, GOFLAGS: "" }, cwd: env.HOME, timeoutMs: 120_000 };
    const result =
      go && (await progress.during(title, "fetching their Go module", () => run(go, args, settings)));
    if (result?.code === 0) return publish(JSON.parse(result.stdout).Dir, folderIn(env), files);
    const how = "install Go, and run setup again with access to a Go module proxy";
    progress.note(`no ${title}: ${without}; ${how}${result ? `\n${result.tail}` : ""}`);
    return undefined;
  };

  /** Fetches them once, or says what is skipped. */
  const ensure = async ({ progress, env = process.env }) => {
    const found = find(env) ?? (await fetchFiles(progress, env));
    if (found !== undefined) progress.cached(title, found);
    return found;
  };
  return { find, ensure };
}

function publish(module, target, files) {
  return fillFolder(target, (work) => {
    for (const file of files) cpSync(join(module, file), join(work, basename(file)));
    return work;
  });
}
