/** Golden configuration. `UPDATE_GOLDEN=1` rewrites the files. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import type { EnvoyCluster } from "../types.ts";
import { renderBootstrap } from "./bootstrap.ts";
import { joinClusters, renderCluster, renderDecideCluster } from "./clusters.ts";
import { renderListeners } from "./listener.ts";
import { renderRelayListeners } from "./relay-listeners.ts";
import { renderKeyPair, renderSecret, renderTrust } from "./typed.ts";

const CLUSTERS: readonly EnvoyCluster[] = [
  {
    name: "default/chat",
    endpoints: [
      { address: "10.0.4.11", port: 40_123, weight: 3, isHealthy: true },
      { address: "fd00::7", port: 40_124, isHealthy: false },
    ],
    maxConnections: 64,
  },
  {
    name: "team-a/embed",
    endpoints: [],
    slowStartMs: 0,
    tlsName: "embed.team-a.svc",
    keepsConnections: true,
  },
  {
    name: "team-a/sealed",
    endpoints: [{ address: "10.0.4.12", port: 40_125, isHealthy: true, fingerprints: ["ab".repeat(32)] }],
    fingerprints: ["ab".repeat(32), "cd".repeat(32)],
    keepsConnections: true,
  },
];

/** All files for a gateway in this folder. */
function render(dir: string): Readonly<Record<string, string>> {
  const at = (name: string) => `${dir}/${name}`;
  const clusters = {
    balancer: "decision" as const,
    platform: "linux" as const,
    bufferBytes: 32 << 20,
    transportFile: at("transport-secret.json"),
    upstreamTls: { trustFile: at("upstream-trust.json"), clientFile: at("upstream-secret.json") },
  };
  return {
    bootstrap: renderBootstrap({
      listenersFile: at("listeners.json"),
      clustersFile: at("clusters.json"),
      adminSocket: at("admin.sock"),
      endpointsSocket: at("endpoints.sock"),
      maxClientConnections: 20_000,
      crowdedHeapBytes: 160 << 20,
    }),
    listeners: renderListeners({
      listen: { address: "0.0.0.0", port: 4_000 },
      secretFile: at("secret.json"),
      accessLogFile: at("access.log"),
      heldSocket: at("held.sock"),
      maxBodyBytes: 32 << 20,
      requestReceiveMs: 300_000,
      firstBytesMs: 10_000,
      idleMs: 3_600_000,
      decideMs: 600_000,
      cors: { allowOrigins: ["https://chat.example.com"] },
    }),
    "relay-listeners": renderRelayListeners({
      address: "::",
      ports: [{ port: 20_000, service: "team-a/sealed" }],
    }),
    "relay-cluster": renderCluster(CLUSTERS[2] as EnvoyCluster, {
      ...clusters,
      balancer: "leastRequests",
      bufferBytes: 256 << 10,
    }),
    secret: renderSecret({ certificateFile: at("tls/tls.crt"), keyFile: at("tls/tls.key") }),
    "transport-secret": renderKeyPair({ certificate: "CERTIFICATE\n", key: "KEY\n" }),
    "upstream-trust": renderTrust(at("upstream/ca.crt")),
    clusters: joinClusters([
      renderDecideCluster(at("decide.sock")),
      ...CLUSTERS.map((one) => renderCluster(one, clusters)),
    ]),
  };
}

for (const [name, text] of Object.entries(render("/run/metalbridge"))) {
  test(`${name} are rendered as recorded`, () => {
    const golden = fileURLToPath(new URL(`golden/${name}.yaml`, import.meta.url));
    const pretty = stringify(JSON.parse(text, countRepeated), { lineWidth: 110 });
    if (process.env.UPDATE_GOLDEN === "1" || !existsSync(golden)) writeFileSync(golden, pretty);
    expect(pretty).toBe(readFileSync(golden, "utf8"));
  });
}

/** Long lists of the same form, and programs, which tests with the real Envoy cover. */
function countRepeated(key: string, value: unknown): unknown {
  if (key === "inline_string" && String(value).includes("function envoy_on_request")) return "a program";
  const isRepeated = Array.isArray(value) && ["mappers", "rules"].includes(key) && value.length > 1;
  return isRepeated ? `${value.length} of them` : value;
}
