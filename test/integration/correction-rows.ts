// biome-ignore-all lint/style/noExcessiveLinesPerFile: one table, read from top to bottom.
/** One row for each kind of correction that a condition asks for: what is wrong, where it shows, and what a user does. */
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { model, service } from "../bed/manifests.ts";
import { until } from "../bed/until.ts";
import { type Origin, sendFile } from "../fixtures/origin.ts";
import { selfSigned } from "../fixtures/self-signed.ts";
import type { BadFleet } from "./bad-fleet.ts";

const PORT = 23_611;
const TINY = fileURLToPath(new URL("../../agent/engines/testing/tiny-program.ts", import.meta.url));

export interface Row {
  readonly name: string;
  /** Where the message is, and its reason until the correction. */
  readonly kind: "Model" | "Prefetched" | "InferenceService" | "InferenceReplica" | "Host";
  readonly reason: string;
  /** Parts of the message that the user needs. */
  readonly says?: readonly string[];
  readonly namespace?: string;
  /** False where more than the correction is missing here: nodes, or what provisions a volume. */
  readonly becomesWell?: false;
  readonly break: () => Promise<void>;
  readonly correct: () => Promise<unknown>;
}

export async function correctionRows(bad: BadFleet, origin: Origin): Promise<readonly Row[]> {
  const programs = () => path.join(realpathSync(bad.dir), "programs");
  const program = (name: string) =>
    writeFileSync(path.join(programs(), name), `#!/bin/sh\nexec '${process.execPath}' '${TINY}' "$@"\n`, {
      mode: 0o755,
    });
  const native = (name: string, command = "serve", memory = "64Mi") =>
    served(
      name,
      good(),
      {},
      {
        runtime: "generic",
        command: [path.join(programs(), command)],
        args: ["{{port}}", "{{address}}"],
        resources: { memory },
        contextSize: undefined,
        promptCacheMiB: undefined,
        extraArgs: undefined,
        probeOverrides: { liveness: { httpGet: { path: "/health" } } },
        inFlightProbe: { gauges: ["held"] },
        rollout: { drainSeconds: 1 },
      },
      "native",
    );
  const patchHost = (name: string, spec: object) => bad.farm.objects.patch("", `mbhost/${name}`, { spec });
  const good = () => path.join(bad.farm.modelsDir, "good.gguf");
  const file = (name: string) => path.join(bad.farm.modelsDir, `${name}.gguf`);
  const secret = (name: string, data: Record<string, string>) => ({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name, namespace: "default" },
    stringData: data,
  });
  const host = (name: string, spec: object) => ({
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "Host",
    metadata: { name },
    spec,
  });
  const address = () => bad.network.hostAddress;
  const served = (
    name: string,
    source: string,
    modelSpec: object = {},
    serviceSpec: object = {},
    on = bad.farm.hostName,
  ) => bad.apply(model(name, source, modelSpec), service(name, on, serviceSpec));
  const gate = { endpoint: { gate: "Never" } };

  const rows: readonly Row[] = [
    {
      name: "source-secret",
      kind: "Model",
      reason: "SourceSecretInvalid",
      break: () =>
        bad.apply(model("source-secret", `${origin.url}/open.gguf`, { sourceSecretRef: { name: "late" } })),
      correct: () => bad.apply(secret("late", { HF_TOKEN: "good" })),
    },
    {
      name: "token",
      kind: "Model",
      reason: "SourceUnauthorized",
      break: () =>
        bad.apply(
          secret("token", { HF_TOKEN: "bad" }),
          model("token", `${origin.url}/gated.gguf`, { sourceSecretRef: { name: "token" } }),
        ),
      correct: () => bad.apply(secret("token", { HF_TOKEN: "good" })),
    },
    {
      name: "edited",
      kind: "Model",
      reason: "SourceNotFound",
      break: () => bad.apply(model("edited", `${origin.url}/nothing.gguf`)),
      correct: () => bad.apply(model("edited", `${origin.url}/open.gguf`)),
    },
    {
      name: "no-model",
      kind: "InferenceService",
      reason: "ModelNotFound",
      break: () => bad.apply(service("no-model", bad.farm.hostName)),
      correct: () => bad.apply(model("no-model", good())),
    },
    {
      name: "no-file",
      kind: "InferenceReplica",
      reason: "SourceNotFound",
      break: () => served("no-file", file("no-file")),
      correct: async () => copyFileSync(good(), file("no-file")),
    },
    {
      name: "no-gguf",
      kind: "InferenceReplica",
      reason: "SourceIsNotAModel",
      break: () => {
        writeFileSync(file("no-gguf"), "<html>not here</html>".repeat(10));
        return served("no-gguf", file("no-gguf"));
      },
      correct: async () => copyFileSync(good(), file("no-gguf")),
    },
    {
      name: "no-key",
      kind: "InferenceReplica",
      reason: "SecretMissing",
      break: () => served("no-key", good(), {}, { ...gate, auth: { secretRef: { name: "no-key" } } }),
      correct: () => bad.apply(secret("no-key", { apiKey: "k" })),
    },
    {
      name: "half-key",
      kind: "InferenceReplica",
      reason: "SecretIncomplete",
      break: async () => {
        await bad.apply(secret("half-key", { other: "k" }));
        await served("half-key", good(), {}, { ...gate, auth: { secretRef: { name: "half-key" } } });
      },
      correct: () => bad.apply(secret("half-key", { apiKey: "k" })),
    },
    {
      name: "no-engine",
      kind: "InferenceService",
      reason: "HostRuntimeMissing",
      says: ["brew install llama.cpp"],
      break: async () => {
        await bad.agent("no-engine", { llamaServer: path.join(bad.dir, "late-server") });
        await served("no-engine", good(), {}, {}, "no-engine");
      },
      correct: async () => symlinkSync(bad.realEngine, path.join(bad.dir, "late-server")),
    },
    {
      name: "elsewhere",
      kind: "Host",
      reason: "AddressNotRegistered",
      says: ["192.0.2.7", "kubectl edit host"],
      break: async () => {
        await bad.apply(host("elsewhere", { addresses: ["192.0.2.7"] }));
        await bad.agent("elsewhere");
        await bad.apply(host("elsewhere", { addresses: ["192.0.2.7"] }));
      },
      correct: () => bad.apply(host("elsewhere", { addresses: [address()] })),
    },
    {
      name: "no-port",
      kind: "InferenceReplica",
      reason: "PortsExhausted",
      says: ["port"],
      break: async () => {
        await new Promise<void>((resolve) => stranger.listen(PORT, "0.0.0.0", resolve));
        await bad.agent("no-port", { portRange: `${PORT}-${PORT}` });
        await served("no-port", good(), {}, {}, "no-port");
      },
      correct: () => new Promise((resolve) => stranger.close(resolve)),
    },
    {
      name: "no-room",
      kind: "InferenceReplica",
      reason: "DiskFull",
      break: async () => {
        await bad.agent("no-room");
        await patchHost("no-room", { disk: { quota: "1Ki" } });
        await served("no-room", `${origin.url}/open.gguf`, {}, {}, "no-room");
      },
      correct: () => patchHost("no-room", { disk: { quota: "1Gi" } }),
    },
    {
      name: "quota",
      kind: "InferenceService",
      reason: "QuotaExceeded",
      namespace: "tight",
      break: async () => {
        await bad.apply(quota("0"));
        await untilCounted("0");
        await bad.apply(
          model("quota", good(), {}, "tight"),
          service("quota", bad.farm.hostName, {}, "tight"),
        );
      },
      correct: async () => {
        await bad.apply(quota("9"));
        await untilCounted("9");
      },
    },
    {
      name: "foreign",
      kind: "InferenceService",
      reason: "ServiceNameTaken",
      break: async () => {
        const metadata = { name: "foreign", namespace: "default" };
        await bad.apply({ apiVersion: "v1", kind: "Service", metadata, spec: { ports: [{ port: 80 }] } });
        await served("foreign", good());
      },
      correct: () => bad.farm.objects.remove("default", "service/foreign"),
    },
    {
      name: "taken",
      kind: "InferenceService",
      reason: "ObjectNameTaken",
      becomesWell: false,
      break: async () => {
        const [metadata, labels] = [{ name: "taken", namespace: "default" }, { app: "theirs" }];
        const template = { metadata: { labels }, spec: { containers: [{ name: "a", image: "a" }] } };
        const spec = { replicas: 0, selector: { matchLabels: labels }, template };
        await bad.apply({ apiVersion: "apps/v1", kind: "Deployment", metadata, spec });
        await bad.apply(
          model("taken", `${origin.url}/open.gguf`, { hardware: { accelerator: "cpu" } }),
          service("taken", "", {
            runtime: "generic",
            image: "registry.example.com/engine:1",
            skipModelInit: true,
            placement: { on: "Pods" },
            contextSize: undefined,
            promptCacheMiB: undefined,
            extraArgs: undefined,
            resources: { cpu: "10m", memory: "16Mi" },
          }),
        );
      },
      correct: () => bad.farm.objects.remove("default", "deployment/taken"),
    },
    {
      name: "claim",
      kind: "Model",
      reason: "VolumeClaimNotFound",
      becomesWell: false,
      break: () => bad.apply(model("claim", "pvc://late/m.gguf", { hardware: { accelerator: "cpu" } })),
      correct: () =>
        bad.apply({
          apiVersion: "v1",
          kind: "PersistentVolumeClaim",
          metadata: { name: "late", namespace: "default" },
          spec: { accessModes: ["ReadWriteMany"], resources: { requests: { storage: "1Gi" } } },
        }),
    },
    {
      name: "no-program",
      kind: "InferenceReplica",
      reason: "RuntimeNotInstalled",
      break: () => native("no-program", "late"),
      correct: async () => program("late"),
    },
    {
      name: "locked",
      kind: "InferenceReplica",
      reason: "RuntimeNotExecutable",
      break: () => native("locked", "locked"),
      correct: async () => chmodSync(path.join(programs(), "locked"), 0o755),
    },
    {
      name: "no-memory",
      kind: "InferenceService",
      reason: "NoHostWithMemory",
      break: async () => {
        await native("holder", "serve", "600Mi");
        await bad.services.statusUntil("holder", (status) => expect(status?.phase).toBe("Ready"));
        await native("no-memory", "serve", "600Mi");
      },
      correct: async () => {
        await bad.farm.objects.startRemoval("default", "isvc/holder");
        await until(async () => expect(await bad.replicasOf("holder")).toEqual([]), { everyMs: 250 });
      },
    },
    {
      name: "no-folder",
      kind: "InferenceReplica",
      reason: "SourceNotFound",
      break: () => served("no-folder", path.join(bad.farm.modelsDir, "later", "m.gguf")),
      correct: async () => {
        mkdirSync(path.join(bad.farm.modelsDir, "later"));
        copyFileSync(good(), path.join(bad.farm.modelsDir, "later", "m.gguf"));
      },
    },
    {
      name: "cut-off",
      kind: "InferenceReplica",
      reason: "EngineBadModel",
      break: () => {
        const whole = readFileSync(good());
        writeFileSync(file("cut-off"), whole.subarray(0, whole.length - 4_096));
        return served("cut-off", file("cut-off"));
      },
      correct: async () => copyFileSync(good(), file("cut-off")),
    },
    {
      name: "listed",
      kind: "InferenceReplica",
      reason: "SourceUnauthorized",
      break: async () => {
        await bad.apply(secret("listed", { HF_TOKEN: "bad" }));
        await served("listed", `${origin.url}/listed.gguf`, { sourceSecretRef: { name: "listed" } });
      },
      correct: () => bad.apply(secret("listed", { HF_TOKEN: "good" })),
    },
    {
      name: "prefetched",
      kind: "Prefetched",
      reason: "SourceUnauthorized",
      break: async () => {
        await bad.apply(secret("prefetched", { HF_TOKEN: "bad" }));
        const names = [bad.farm.hostName];
        const spec = { sourceSecretRef: { name: "prefetched" }, prefetchHosts: { names } };
        await bad.apply(model("prefetched", `${origin.url}/listed.gguf`, spec));
      },
      correct: () => bad.apply(secret("prefetched", { HF_TOKEN: "good" })),
    },
    {
      name: "bad-tls",
      kind: "InferenceReplica",
      reason: "CertificateInvalid",
      break: async () => {
        await bad.apply(tls("bad-tls", { cert: "garbage", key: "garbage" }));
        await served("bad-tls", good(), {}, { endpoint: { tls: { secretRef: { name: "bad-tls" } } } });
      },
      correct: () => bad.apply(tls("bad-tls", selfSigned())),
    },
    {
      name: "many-keys",
      kind: "InferenceReplica",
      reason: "ApiKeysTooMany",
      break: async () => {
        const apiKey = Array.from({ length: 1_001 }, (_, index) => `key-${index}`).join("\n");
        await bad.apply(secret("many-keys", { apiKey }));
        await served("many-keys", good(), {}, { ...gate, auth: { secretRef: { name: "many-keys" } } });
      },
      correct: () => bad.apply(secret("many-keys", { apiKey: "k" })),
    },
    {
      name: "no-label",
      kind: "InferenceService",
      reason: "NoHostFits",
      break: () =>
        served("no-label", good(), {}, { placement: { hostSelector: { matchLabels: { pool: "late" } } } }),
      correct: () =>
        bad.farm.objects.patch("", `mbhost/${bad.farm.hostName}`, { metadata: { labels: { pool: "late" } } }),
    },
    {
      name: "cordoned",
      kind: "InferenceService",
      reason: "HostCordoned",
      break: async () => {
        await patchHost("cordoned", { unschedulable: true });
        await served("cordoned", good(), {}, {}, "cordoned");
      },
      correct: () => patchHost("cordoned", { unschedulable: false }),
    },
  ];
  const tls = (
    name: string,
    { cert, key }: { readonly cert: string | Buffer; readonly key: string | Buffer },
  ) => ({
    apiVersion: "v1",
    kind: "Secret",
    type: "kubernetes.io/tls",
    metadata: { name, namespace: "default" },
    stringData: { "tls.crt": String(cert), "tls.key": String(key) },
  });
  const quota = (services: string) => ({
    apiVersion: "v1",
    kind: "ResourceQuota",
    metadata: { name: "few", namespace: "tight" },
    spec: { hard: { services } },
  });
  const untilCounted = (services: string) =>
    bad.farm.objects.until("tight", "resourcequota/few", (found) =>
      expect(found?.status?.hard?.services).toBe(services),
    );
  const stranger = createServer();
  const weights = readFileSync(good());
  origin.serve("/open.gguf", weights);
  origin.on("/gated.gguf", (request, response) => {
    if (request.headers.authorization === "Bearer good") sendFile(request, response, weights);
    else response.writeHead(401).end();
  });
  // The controller reads a header, by ranges; hosts read all of it.
  origin.on("/listed.gguf", (request, response) => {
    const isAllowed = request.headers.authorization === "Bearer good" || request.headers.range !== undefined;
    if (isAllowed) sendFile(request, response, weights);
    else response.writeHead(401).end();
  });
  mkdirSync(programs());
  for (const name of ["serve", "locked"]) program(name);
  chmodSync(path.join(programs(), "locked"), 0o644);
  await bad.agent("native", { config: { generic: { roots: [programs()] }, memory: { budget: "1Gi" } } });
  await bad.agent("cordoned");
  await bad.farm.objects.createNamespace("tight");
  return rows;
}
