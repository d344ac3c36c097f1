/** Real programs that only tests need, built from their Go modules where they are not installed. */
import { goProgram } from "./go-program.mjs";

const HELM = "v3.22.0";

/** Checks the workflows in .github. */
export const { find: findActionlint, ensure: ensureActionlint } = goProgram({
  program: "actionlint",
  variable: "METALBRIDGE_ACTIONLINT",
  module: "github.com/rhysd/actionlint/cmd/actionlint",
  version: "v1.7.12",
});

/** For the tests of the chart, and for the plain manifests that are rendered from it. */
export const { find: findHelm, ensure: ensureHelm } = goProgram({
  program: "helm",
  variable: "METALBRIDGE_HELM",
  module: "helm.sh/helm/v3/cmd/helm",
  version: HELM,
  // Without it a build calls itself v3.22.
  linkFlags: [`-X helm.sh/helm/v3/internal/version.version=${HELM}`],
});

/** Karpenter with its simulated cloud, which the module calls kwok. Version 1.14.3 and later need a newer Go. */
export const { find: findKarpenter, ensure: ensureKarpenter } = goProgram({
  program: "karpenter-kwok",
  variable: "METALBRIDGE_KARPENTER",
  module: "sigs.k8s.io/karpenter/kwok",
  version: "v1.14.0",
  brew: "",
  firstBuild: "three minutes",
});

/** Simulates the nodes that pods run on. */
export const { find: findKwok, ensure: ensureKwok } = goProgram({
  program: "kwok",
  variable: "METALBRIDGE_KWOK",
  module: "sigs.k8s.io/kwok/cmd/kwok",
  version: "v0.8.0",
});

/** The newest that `go install` builds: later modules lack headers. Such a build calls itself 0.0.0. */
export const { find: findOllama, ensure: ensureOllama } = goProgram({
  program: "ollama",
  variable: "METALBRIDGE_OLLAMA",
  module: "github.com/ollama/ollama",
  version: "v0.9.6",
  cgo: true,
});

/** An OCI registry for oci:// sources. */
export const { find: findRegistry, ensure: ensureRegistry } = goProgram({
  program: "registry",
  variable: "METALBRIDGE_REGISTRY",
  module: "github.com/distribution/distribution/v3/cmd/registry",
  version: "v3.1.2",
  brew: "docker-registry",
});

/** An S3 server, which checks signatures, clocks and regions. */
export const { find: findS3Server, ensure: ensureS3Server } = goProgram({
  program: "versitygw",
  variable: "METALBRIDGE_S3_SERVER",
  module: "github.com/versity/versitygw/cmd/versitygw",
  version: "v1.8.0",
});

/** The controller of LeaderWorkerSet, for groups of pods. */
export const { find: findLws, ensure: ensureLws } = goProgram({
  program: "lws",
  variable: "METALBRIDGE_LWS",
  module: "sigs.k8s.io/lws",
  folder: "cmd",
  version: "v0.9.0",
  brew: "",
});

/** The controllers that `npm run interop -- --only envoy-ai-gateway` runs; setup does not build them. */
export const { find: findEnvoyGateway, ensure: ensureEnvoyGateway } = goProgram({
  program: "envoy-gateway",
  variable: "METALBRIDGE_ENVOY_GATEWAY",
  module: "github.com/envoyproxy/gateway/cmd/envoy-gateway",
  version: "v1.8.1",
  brew: "",
  firstBuild: "ten minutes",
});
export const { find: findAIGatewayController, ensure: ensureAIGatewayController } = goProgram({
  program: "ai-gateway-controller",
  variable: "METALBRIDGE_AI_GATEWAY_CONTROLLER",
  module: "github.com/envoyproxy/ai-gateway",
  folder: "cmd/controller",
  version: "v1.0.0",
  brew: "",
  firstBuild: "five minutes",
});
export const { find: findAIGatewayExtproc, ensure: ensureAIGatewayExtproc } = goProgram({
  program: "ai-gateway-extproc",
  variable: "METALBRIDGE_AI_GATEWAY_EXTPROC",
  module: "github.com/envoyproxy/ai-gateway",
  folder: "cmd/extproc",
  version: "v1.0.0",
  brew: "",
  firstBuild: "five minutes",
});
