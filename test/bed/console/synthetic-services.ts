/** Models, services and replicas of a synthetic farm, in all phases. The same index gives the same service. */
import type { Condition } from "../../../src/api/conditions.ts";
import { API_VERSION, LABEL_HOST, LABEL_SERVICE, LABEL_SERVICE_UID } from "../../../src/api/group.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceServiceStatus } from "../../../src/api/inference-service/index.ts";
import type { ModelStatus } from "../../../src/api/model.ts";
import { formatBytes } from "../../../src/util/bytes.ts";
import { budgetOf } from "./synthetic-hosts.ts";
import type { SyntheticTexts } from "./synthetic-texts.ts";

const GIB = 2 ** 30;

interface Weights {
  readonly name: string;
  readonly source: string;
  readonly gib: number;
  readonly quantization: string;
}

const WEIGHTS: readonly Weights[] = [
  weights("qwen3-8b", "hf://unsloth/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf", 4.7, "Q4_K_M"),
  weights(
    "llama-3.1-70b",
    "hf://bartowski/Meta-Llama-3.1-70B-Instruct-GGUF/Meta-Llama-3.1-70B-Instruct-Q4_K_M.gguf",
    39.6,
    "Q4_K_M",
  ),
  weights("gemma-3-4b", "hf://unsloth/gemma-3-4b-it-GGUF/gemma-3-4b-it-Q8_0.gguf", 3.8, "Q8_0"),
  weights(
    "qwen3-coder-30b",
    "hf://unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF/Qwen3-Coder-30B-A3B-Instruct-Q5_K_M.gguf",
    20.2,
    "Q5_K_M",
  ),
  weights("bge-m3", "hf://gpustack/bge-m3-GGUF/bge-m3-FP16.gguf", 1.1, "F16"),
  weights(
    "mistral-small",
    "hf://unsloth/Mistral-Small-3.2-24B-Instruct-2506-GGUF/Mistral-Small-3.2-24B-Instruct-2506-Q4_K_M.gguf",
    13.3,
    "Q4_K_M",
  ),
];

type Phase = NonNullable<InferenceServiceStatus["phase"]>;

/** Most services serve; each other phase occurs in every round. */
const ROUND: readonly Phase[] = [
  ...(["Ready", "WaitingForCapacity", "Ready", "Creating", "Ready", "Degraded", "Ready", "Ready"] as const),
  ...(["Progressing", "Ready", "Idle", "Ready", "Failed", "Ready", "Ready", "Suspended", "Ready"] as const),
  ...(["Pending", "Ready", "WaitingForGPU", "Ready", "Ready", "Stopped", "Ready", "Ready"] as const),
];

const WHY: Readonly<Partial<Record<Phase, readonly [reason: string, message: string]>>> = {
  Ready: ["AllReplicasReady", "all replicas are ready"],
  WaitingForCapacity: [
    "NoHostWithMemory",
    "Insufficient memory: needs 41.4 GiB, 18.0 GiB free on {host}; lower contextSize or parallelSlots.",
  ],
  Creating: ["Fetching", "1 of 1 replicas downloads the weights"],
  Degraded: [
    "EngineCrashed",
    "1 of 2 replicas is ready; the engine on {host} has exited 5 times (SIGKILL under memory pressure); next start in 42 s",
  ],
  Progressing: ["RollingOut", "1 of 2 replicas runs the new revision"],
  Idle: ["NoRequests", "unloaded after 10 min without a request; the next request starts it"],
  Failed: ["ModelUnreadable", "cannot read the header of the model: it is no GGUF file; check spec.source"],
  Suspended: ["Suspended", "spec.suspend is true"],
  Pending: ["ModelNotReady", "waiting for Model default/qwen3-8b: resolving its source"],
  WaitingForGPU: ["NoNodeWithGPU", "0/12 nodes are available: 12 Insufficient nvidia.com/gpu."],
  Stopped: ["ScaledToZero", "spec.replicas is 0"],
};

export interface SyntheticModel {
  readonly object: {
    readonly metadata: { readonly name: string; readonly namespace: string };
    readonly [field: string]: unknown;
  };
  readonly status: ModelStatus;
}

export function syntheticModels(
  hosts: readonly string[],
  nowIso: string,
  { namespaces }: SyntheticTexts,
): readonly SyntheticModel[] {
  return namespaces.flatMap((namespace, at) =>
    WEIGHTS.map(({ name, source, gib, quantization }, index) => ({
      object: {
        apiVersion: API_VERSION,
        kind: "Model",
        metadata: { name, namespace },
        spec: { source, quantization },
      },
      status: modelStatus(gib, hosts.slice(0, Math.min(hosts.length, 1 + ((index + at) % 5))), nowIso),
    })),
  );
}

function modelStatus(gib: number, hosts: readonly string[], nowIso: string): ModelStatus {
  const sizeBytes = Math.round(gib * GIB);
  return {
    phase: "Ready",
    reason: "SourceResolved",
    message: "",
    sizeBytes,
    size: formatBytes(sizeBytes),
    weightsBytes: sizeBytes,
    format: "gguf",
    hosts: hosts.map((name) => ({ name, sizeBytes })),
    conditions: [condition("Ready", "True", "SourceResolved", "", nowIso)],
  };
}

export interface SyntheticService {
  readonly object: {
    readonly metadata: { readonly name: string; readonly namespace: string };
    readonly [field: string]: unknown;
  };
  readonly status: InferenceServiceStatus;
  /** Each on a host, by its place in the list that was given. */
  readonly replicas: readonly SyntheticReplica[];
}

export interface SyntheticReplica {
  readonly host: number;
  readonly claimBytes: number;
  readonly object: (uid: string) => InferenceReplica;
  readonly status: NonNullable<InferenceReplica["status"]>;
}

export function syntheticService(
  index: number,
  hosts: readonly string[],
  nowIso: string,
  texts: SyntheticTexts,
): SyntheticService {
  const used = WEIGHTS[index % WEIGHTS.length] as Weights;
  const phase = ROUND[index % ROUND.length] as Phase;
  const namespace = texts.namespaces[index % texts.namespaces.length] as string;
  const name = texts.serviceName(index, used.name);
  const desired =
    phase === "Suspended" || phase === "Stopped"
      ? 0
      : phase === "Degraded" || phase === "Progressing"
        ? 2
        : 1;
  const spec = {
    modelRef: used.name,
    replicas: phase === "Stopped" ? 0 : Math.max(1, desired),
    suspend: phase === "Suspended",
    contextSize: 8192,
  };
  const replicas = replicasOf({ index, phase, name, namespace, used, hosts, nowIso });
  return {
    object: { apiVersion: API_VERSION, kind: "InferenceService", metadata: { name, namespace }, spec },
    status: serviceStatus({ index, phase, used, desired, replicas, hosts, nowIso, texts, name, namespace }),
    replicas,
  };
}

interface StatusFacts {
  readonly index: number;
  readonly phase: Phase;
  readonly used: Weights;
  readonly desired: number;
  readonly replicas: readonly SyntheticReplica[];
  readonly hosts: readonly string[];
  readonly nowIso: string;
  readonly texts: SyntheticTexts;
  readonly name: string;
  readonly namespace: string;
}

function serviceStatus({
  index,
  phase,
  used,
  desired,
  replicas,
  hosts,
  nowIso,
  texts,
  name,
  namespace,
}: StatusFacts): InferenceServiceStatus {
  const [reason, text] = WHY[phase] ?? ["Unknown", ""];
  const message = texts.message(index, text.replace("{host}", hosts[(index + 7) % hosts.length] ?? ""));
  const ready = replicas.filter(({ status }) => status.phase === "Ready").length;
  const isFault = phase === "WaitingForCapacity" || phase === "Degraded" || phase === "Failed";
  return {
    phase,
    reason,
    message,
    mode: used.name === "bge-m3" ? "embedding" : "chat",
    on: phase === "WaitingForGPU" ? "Pods" : "Hosts",
    runtime: "llamacpp",
    model: {
      name: used.name,
      source: used.source,
      quantization: used.quantization,
      sizeBytes: Math.round(used.gib * GIB),
    },
    performance: phase === "Ready" ? performanceAt(index, 0) : {},
    currentRevision: "0123456789",
    updateRevision: phase === "Progressing" ? "9876543210" : "0123456789",
    replicas: replicas.length,
    readyReplicas: ready,
    updatedReplicas: phase === "Progressing" ? 1 : desired,
    desiredReplicas: desired,
    ready: `${ready}/${desired}`,
    endpoint: `http://${name}.${namespace}.svc.cluster.local:8080`,
    placement: {
      chosen: replicas.map(({ host }, slot) => ({
        replica: `r-${index}-${slot}`,
        host: hosts[host] ?? "",
        score: 0.7,
        reason: "47 tokens/s, 20 % of its memory stays free",
      })),
      ...(phase === "WaitingForCapacity"
        ? { misses: missesOf(hosts), reasons: { NoHostWithMemory: hosts.length } }
        : {}),
    },
    ...(phase === "WaitingForCapacity"
      ? { waitingFor: "memory: 23.4 GiB", queuePosition: 1 + (index % 40) }
      : {}),
    conditions: [
      condition(
        "Degraded",
        isFault ? "True" : "False",
        isFault ? reason : "AsExpected",
        isFault ? message : "",
        nowIso,
      ),
      condition("Ready", phase === "Ready" ? "True" : "False", reason, message, nowIso),
    ],
  };
}

function missesOf(hosts: readonly string[]): NonNullable<InferenceServiceStatus["placement"]>["misses"] {
  return hosts.slice(0, 10).map((host, at) => ({
    host,
    reason: "NoHostWithMemory",
    message: `needs 41.4 GiB, ${(18 - at).toFixed(1)} GiB free`,
    shortBytes: Math.round((23.4 + at) * GIB),
    hint: "contextSize 4096 would fit",
  }));
}

/** Speeds that differ from turn to turn, so that each change is one. */
export function performanceAt(
  index: number,
  turn: number,
): NonNullable<InferenceServiceStatus["performance"]> {
  return {
    tokensPerSecond: 10 + ((index * 7 + turn * 13) % 900) / 10,
    timeToFirstTokenSeconds: 0.1 + ((index + turn) % 20) / 20,
    requestsInFlight: (index + turn) % 5,
  };
}

interface ReplicaFacts {
  readonly index: number;
  readonly phase: Phase;
  readonly name: string;
  readonly namespace: string;
  readonly used: Weights;
  readonly hosts: readonly string[];
  readonly nowIso: string;
}

function replicasOf(facts: ReplicaFacts): readonly SyntheticReplica[] {
  switch (facts.phase) {
    case "Ready":
      return [replica(facts, 0, { phase: "Ready", reason: "EngineReady", message: "" })];
    case "Creating":
      return [
        replica(facts, 0, {
          phase: "Fetching",
          reason: "Downloading",
          message: "3.1 of 8.5 GB, 94 MB/s",
          progress: { bytes: 3_100_000_000, totalBytes: 8_500_000_000, bytesPerSecond: 94_000_000 },
        }),
      ];
    case "Degraded":
      return [
        replica(facts, 0, { phase: "Ready", reason: "EngineReady", message: "" }),
        replica(facts, 1, {
          phase: "Backoff",
          reason: "EngineCrashed",
          message: "SIGKILL under memory pressure; next start in 42 s",
        }),
      ];
    case "Progressing":
      return [
        replica(facts, 0, { phase: "Ready", reason: "EngineReady", message: "" }),
        replica(facts, 1, { phase: "Starting", reason: "Loading", message: "loading the weights" }),
      ];
    default:
      return [];
  }
}

function replica(
  { index, name, namespace, used, hosts, nowIso }: ReplicaFacts,
  slot: number,
  status: NonNullable<InferenceReplica["status"]>,
): SyntheticReplica {
  const weightsBytes = Math.round(used.gib * GIB);
  const claimBytes = Math.round(weightsBytes * 1.2);
  const host = roomyHost((index + slot * 7) % hosts.length, claimBytes, hosts.length);
  const hostName = hosts[host] ?? "";
  const footprintBytes = Math.round(weightsBytes * 1.05);
  return {
    host,
    claimBytes,
    object: (uid) =>
      ({
        apiVersion: API_VERSION,
        kind: "InferenceReplica",
        metadata: {
          name: `r-${index}-${slot}`,
          namespace,
          labels: { [LABEL_SERVICE]: name, [LABEL_SERVICE_UID]: uid, [LABEL_HOST]: hostName },
        },
        spec: {
          template: {
            ...{ hostName, serviceName: name, serviceUid: uid, revision: "0123456789", runtime: "llamacpp" },
            model: { source: used.source, format: "gguf", files: [] },
            engine: { mode: "chat" },
          },
          memory: { claimBytes, weightsBytes },
        },
      }) as unknown as InferenceReplica,
    status: {
      ...status,
      port: 21_000 + (index % 250),
      startedAt: nowIso,
      memory: { claimBytes, footprintBytes: status.phase === "Ready" ? footprintBytes : 0 },
      performance: status.phase === "Ready" ? performanceAt(index, 0) : {},
      transitions: [
        { at: nowIso, phase: "Pending", reason: "Created" },
        {
          at: nowIso,
          phase: status.phase ?? "Pending",
          reason: status.reason ?? "",
          message: status.message,
        },
      ],
      conditions: [
        condition("HostReachable", "True", "HostReachable", `host ${hostName} is Reachable`, nowIso),
      ],
    },
  };
}

/** The first from there on that holds two such claims, with 4 GiB of reserve. */
function roomyHost(from: number, claimBytes: number, count: number): number {
  for (let step = 0; step < count; step += 1) {
    const host = (from + step) % count;
    if (budgetOf(host) - 4 * GIB > 2 * claimBytes) return host;
  }
  return from;
}

function condition(
  type: string,
  status: Condition["status"],
  reason: string,
  message: string,
  nowIso: string,
): Condition {
  return { type, status, reason, message, lastTransitionTime: nowIso };
}

function weights(name: string, source: string, gib: number, quantization: string): Weights {
  return { name, source, gib, quantization };
}
