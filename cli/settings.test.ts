import { Command } from "commander";
import { expect, test } from "vitest";
import { nodeConfigSchema, nodeNameOf, nodeReaderPaths, parseNodeConfig } from "../agent/node/config.ts";
import { controllerConfigSchema, parseControllerConfig } from "../controller/config.ts";
import { inspectSettings } from "../controller/models/config.ts";
import { liveEvictionOf } from "../controller/options/live-eviction/option.ts";
import { preflightOf } from "../controller/options/preflight/option.ts";
import { podsSettingsOf, probingOf } from "../controller/pods/config.ts";
import { gatewayConfigSchema, parseGatewayConfig } from "../gateway/config.ts";
import { parseRelayConfig, relayConfigSchema } from "../gateway/relay/config.ts";
import { parseServerConfig, serverConfigSchema } from "../server/config.ts";
import { configureController } from "./controller.ts";
import { configureGateway } from "./gateway.ts";
import { configureNode } from "./node.ts";
import { configureRelay } from "./relay.ts";
import { configureServer } from "./server.ts";

/** By key: as given on the command line, and what becomes of it where that is another. No value is the default. */
type Given = Readonly<Record<string, readonly [string, unknown?]>>;

const CONTROLLER: Given = {
  kubeconfig: ["/k"],
  context: ["c"],
  healthAddress: ["0.0.0.0"],
  healthPort: ["1", 1],
  flexinferMetricNames: ["", true],
  hfEndpoint: ["https://mirror.example"],
  ollamaRegistry: ["https://registry.example"],
  allowLoopback: ["", true],
  allowPrivate: ["", true],
  allowNetworks: ["10.0.0.0/8", ["10.0.0.0/8"]],
  image: ["registry.example/m:1"],
  imagePullSecrets: ["a,b", ["a", "b"]],
  cacheScope: ["Model"],
  cacheSize: ["1Gi"],
  cacheStorageClass: ["fast"],
  cacheAccessMode: ["ReadWriteMany"],
  cacheCaConfigMap: ["authorities"],
  stallMs: ["101", 101],
  lookMs: ["102", 102],
  sourceCheckSeconds: ["103", 103],
  hostsOnly: ["", true],
  engineImages: ["vllm=mirror.example/vllm:v1", [["vllm", "mirror.example/vllm:v1"]]],
  engineRegistry: ["mirror.example"],
  hostPaths: ["/srv/models,/data", ["/srv/models", "/data"]],
  probeNodes: ["", true],
  probeRuntimeClassName: ["nvidia"],
  preflight: ["Deny"],
  preflightAddress: ["127.0.0.1"],
  preflightPort: ["2", 2],
  preflightNames: ["a.example,b.example", ["a.example", "b.example"]],
  preflightFixedNodes: ["", true],
  externalMetrics: ["", true],
  externalMetricsAddress: ["127.0.0.1"],
  externalMetricsPort: ["3", 3],
  externalMetricsNames: ["c.example", ["c.example"]],
  loadEndpoint: ["http://controller.example:8081"],
  tunnel: ["", true],
  tunnelAddress: ["127.0.0.1"],
  tunnelPort: ["9", 9],
  transport: ["Sealed"],
  relayService: ["metalbridge-relay"],
  scoreWeights: ["tps=0.5,cost=0", { tps: 0.5, utilization: 0.2, cost: 0 }],
  benchmarks: ["Off"],
  benchmarkMaxAge: ["48h"],
  fitness: ["", true],
  liveEviction: ["", true],
  liveEvictionPercent: ["5", 5],
  liveEvictionCheckInterval: ["2m"],
  labels: ["", true],
  labelPrefix: ["flexinfer.ai/"],
  gatewayMode: ["EnvoyAIGateway"],
  gatewayRef: ["edge/main"],
  ruleLabels: ["release=monitoring"],
};
const GATEWAY: Given = {
  kubeconfig: ["/k"],
  context: ["c"],
  dir: ["/run/gateway"],
  envoy: ["/envoy"],
  address: ["0.0.0.0"],
  port: ["1", 1],
  namespace: ["mine"],
  keysNamespace: ["keys"],
  service: ["gateways"],
  tlsCert: ["/cert"],
  tlsKey: ["/key"],
  upstreamCa: ["/ca"],
  upstreamCert: ["/client-cert"],
  upstreamKey: ["/client-key"],
  kubernetesTokens: ["", true],
  userLimits: ["requestsPerMinute=60, tokensPerDay=1000", { requestsPerMinute: 60, tokensPerDay: 1_000 }],
  corsOrigins: ["https://a.example", ["https://a.example"]],
  maxBodyBytes: ["2048", 2048],
  counters: ["redis://127.0.0.1:1"],
  countersFile: ["/counters"],
  otlpEndpoint: ["http://127.0.0.1:2"],
  userJwtSecretFile: ["/secret"],
  healthAddress: ["0.0.0.0"],
  healthPort: ["2", 2],
};
const RELAY: Given = {
  kubeconfig: ["/k"],
  context: ["c"],
  dir: ["/run/relay"],
  envoy: ["/envoy"],
  address: ["::"],
  namespace: ["mine"],
  healthAddress: ["0.0.0.0"],
  healthPort: ["2", 2],
};
const SERVER: Given = {
  kubeconfig: ["/k"],
  context: ["c"],
  address: ["0.0.0.0"],
  port: ["1", 1],
  tlsCert: ["/cert"],
  tlsKey: ["/key"],
  healthAddress: ["0.0.0.0"],
  healthPort: ["2", 2],
  extenderPort: ["3", 3],
  extenderTlsCert: ["/extender-cert"],
  extenderTlsKey: ["/extender-key"],
  metricsPrefix: ["other"],
  scoreWeights: ["cost=0.5", { tps: 0.7, utilization: 0.2, cost: 0.5 }],
  console: ["", true],
  consoleReadOnly: ["", true],
  sessionKeyFile: ["/session-key"],
  oidcIssuer: ["https://id.example"],
  oidcClientId: ["console"],
  oidcClientSecretFile: ["/client-secret"],
  oidcScopes: ["openid groups"],
  oidcCaFile: ["/ca"],
  gatewayCaFile: ["/ca"],
  gatewayUrl: ["http://gateway:4000/", "http://gateway:4000"],
  gatewayPublicUrl: ["https://models.example"],
  gatewayHealthUrl: ["http://127.0.0.1:9468", ["http://127.0.0.1:9468"]],
  gatewayNamespace: ["edge"],
  gatewayKeysNamespace: ["keys"],
  gatewayKubernetesTokens: ["", true],
};
const NODE: Given = {
  kubeconfig: ["/k"],
  context: ["c"],
  nodeName: ["gpu-1"],
  namespace: ["mine"],
  hostRoot: ["/host"],
  modelFolder: ["/models", ["/models"]],
  ollama: ["127.0.0.1:1"],
  interval: ["1m", 60],
  flexinferMetricNames: ["", true],
  metricsPort: ["9100", 9100],
  metricsAddress: ["0.0.0.0"],
  llmfitPort: ["8787", 8787],
  llmfitAddress: ["0.0.0.0"],
  llmfitTokenFile: ["/token"],
};

test.each([
  ["controller", configureController, parseControllerConfig, controllerConfigSchema, CONTROLLER],
  ["server", configureServer, parseServerConfig, serverConfigSchema, SERVER],
  ["gateway", configureGateway, parseGatewayConfig, gatewayConfigSchema, GATEWAY],
  ["relay", configureRelay, parseRelayConfig, relayConfigSchema, RELAY],
  ["node", configureNode, parseNodeConfig, nodeConfigSchema, NODE],
] as const)("every setting of the %s can be given by its flag", (_, configure, parse, schema, given) => {
  expect(Object.keys(given).sort()).toEqual(Object.keys(schema.shape).sort());
  const expected = Object.entries(given).map(([key, [text, value = text]]) => [key, value]);
  expect(parse(parsed(configure, given))).toEqual(Object.fromEntries(expected));
});

test("what the controller was given reaches live eviction, preflight, and what reads models and builds pods", () => {
  const config = parseControllerConfig(parsed(configureController, CONTROLLER));
  expect(liveEvictionOf(config)).toMatchObject({ threshold: 0.05 });
  expect(preflightOf(config)).toMatchObject({
    mode: "Deny",
    address: "127.0.0.1",
    port: 2,
    names: ["a.example", "b.example"],
  });
  expect(inspectSettings(config)).toMatchObject({
    hfEndpoint: "https://mirror.example",
    ollamaRegistry: "https://registry.example",
    inspectMs: 102,
    rules: { allowLoopback: true, allowPrivate: true, allowedNetworks: ["10.0.0.0/8"], stallMs: 101 },
  });
  expect(podsSettingsOf(config)).toMatchObject({
    images: { vllm: "mirror.example/vllm:v1" },
    registryPrefix: "mirror.example",
    fetch: { image: "registry.example/m:1", cacheScope: "Model", cacheSize: "1Gi" },
  });
  expect(probingOf(config)).toEqual({
    image: "registry.example/m:1",
    imagePullSecrets: ["a", "b"],
    runtimeClassName: "nvidia",
  });
});

test("nodes are probed unless a flag forbids it or no image is known", () => {
  const image = "registry.example/m:1";
  expect(probingOf(parseControllerConfig({ image }))).toMatchObject({ image });
  expect(probingOf(parseControllerConfig({ image, probeNodes: false }))).toBeUndefined();
  expect(probingOf(parseControllerConfig({}))).toBeUndefined();
});

test("without their flags, live eviction and preflight are off", () => {
  const config = parseControllerConfig({});
  expect([liveEvictionOf(config), preflightOf(config)]).toEqual([undefined, undefined]);
});

test.each([
  ["10s", 10_000],
  ["1m30s", 90_000],
  ["1h", 3_600_000],
])("live eviction observes every %s", (liveEvictionCheckInterval, intervalMs) => {
  const config = parseControllerConfig({ liveEviction: true, liveEvictionCheckInterval });
  expect(liveEvictionOf(config)).toMatchObject({ intervalMs });
});

test.each(["9s", "61m", "0s", "soon", "30", ""])("an interval of %j is refused", (interval) => {
  expect(() => parseControllerConfig({ liveEvictionCheckInterval: interval })).toThrow(
    /^liveEvictionCheckInterval: must be (from 10s to 1h|a duration such as 30s)/,
  );
});

test("without fitness, what acts on scores cannot be on", () => {
  expect(parseControllerConfig({ fitness: false })).toMatchObject({ fitness: false, liveEviction: false });
  expect(() => parseControllerConfig({ fitness: false, liveEviction: true })).toThrow(
    "liveEviction: needs fitness",
  );
});

test("what a node was given says where it reads, and as which node", () => {
  const config = parseNodeConfig(parsed(configureNode, NODE));
  expect(nodeNameOf(config)).toBe("gpu-1");
  // kubelet registers a node under the host name in lower case.
  expect(nodeNameOf(parseNodeConfig({}), "GPU-Box.example")).toBe("gpu-box.example");
  expect(nodeReaderPaths(config)).toMatchObject({
    roots: { proc: "/host/proc", isOwn: false },
    installed: { homes: [], folders: ["/models"] },
  });
});

/** What the verb's action would be given, without what is no setting. */
function parsed(configure: (command: Command) => void, given: Given): object {
  const command = new Command();
  configure(command);
  const args = Object.entries(given).flatMap(([key, [text]]) => {
    const flag = `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    return text === "" ? [flag] : [flag, text];
  });
  command.action(() => {}).parse(args, { from: "user" });
  const { logLevel: _, ...settings } = command.opts();
  return settings;
}
