/** A runner on real parts for tests: the shared API server, the real llama-server or a tiny faulty program, a store in a folder. */
import { chmodSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { createEngineDrivers } from "../../agent/engines/registry.ts";
import {
  ANNOTATION_ADDRESSES,
  FINALIZER_ENGINE,
  LABEL_HOST,
  LABEL_SERVICE_NAME,
  LABEL_SLICE_MANAGED_BY,
  SLICE_MANAGED_BY,
} from "../../src/api/group.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { connect } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { ENDPOINT_SLICES } from "../../src/kube/kinds.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import { ONE_THREAD } from "../bed/agent.ts";
import { must } from "../bed/must.ts";
import { type Objects, objectsOf } from "../bed/objects.ts";
import { enginePorts } from "../bed/ports.ts";
import { until } from "../bed/until.ts";
import { findLlamaServer } from "../fixtures/llama-server.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { type Agent, type AgentChanges, type AgentPlace, startAgentAt } from "./agent.ts";

export interface Bench extends AsyncDisposable {
  readonly stateDir: string;
  readonly modelPath: string;
  readonly address: string;
  readonly client: KubeClient;
  readonly objects: Objects;
  readonly place: AgentPlace;
  readonly startAgent: (changes?: AgentChanges) => Promise<Agent>;
  readonly createReplica: (
    name: string,
    change?: (spec: InferenceReplica["spec"]) => void,
  ) => Promise<InferenceReplica>;
  readonly replica: (name: string) => Promise<InferenceReplica | undefined>;
  readonly slice: (name: string) => Promise<EndpointSlice | undefined>;
  /** Changes spec by a merge patch, as the controller may. */
  readonly patchSpec: (name: string, spec: object) => Promise<void>;
  readonly deleteReplica: (name: string) => Promise<void>;
  /** Calls `check` with the replica as it changes, until it does not throw. Undefined once there is none. */
  readonly untilReplica: <T>(name: string, check: (replica: InferenceReplica | undefined) => T) => Promise<T>;
  readonly untilGone: (name: string) => Promise<void>;
  /** The same with its EndpointSlice. */
  readonly untilSlice: <T>(name: string, check: (slice: EndpointSlice | undefined) => T) => Promise<T>;
  /** Waits until its endpoint is ready, or is not. */
  readonly untilAnnounced: (name: string, isReady: boolean) => Promise<void>;
  /** Waits until status has the phase, and resolves with the replica. */
  readonly untilPhase: (name: string, phase: string) => Promise<InferenceReplica>;
  /** Waits until status has the reason. */
  readonly untilReason: (name: string, reason: string) => Promise<InferenceReplica>;
  /** Waits until status names the reason of an engine's end. */
  readonly untilExit: (name: string, reason: string) => Promise<InferenceReplica>;
  /** An executable that answers --help and --version like the real one and otherwise runs `script`, with it in $REAL. */
  readonly program: (script: string, path?: string) => string;
  /** Drivers that know the one path only. */
  readonly drivers: (path: string, searchPath: string) => AgentChanges["drivers"] & {};
  /** The numbers in a file under the root, once there are that many. */
  readonly lines: (file: string, count: number) => Promise<readonly number[]>;
}

let hosts = 0;

/** Cleans up engines, files and objects when disposed. */
export async function createBench(kubeconfig: string, namespace: string): Promise<Bench> {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "metalbridge-runner-")));
  const stateDir = join(root, "state");
  const modelPath = join(root, "tiny.gguf");
  await writeTinyGguf(modelPath);
  hosts += 1;
  const hostName = `bench-${process.pid}-${hosts}`;
  const address = outsideAddress();
  const connection = await connect({ kubeconfigPath: kubeconfig });
  const client = createClient(connection);
  const agents = new Set<Agent>();
  const get = async (name: string): Promise<InferenceReplica | undefined> => {
    const answer = await client.get(INFERENCE_REPLICAS, { name, namespace });
    return answer.ok ? answer.value : undefined;
  };
  const objects = objectsOf(kubeconfig);
  const untilReplica: Bench["untilReplica"] = (name, check) =>
    objects.until(namespace, `inferencereplicas/${name}`, check);
  const untilSlice: Bench["untilSlice"] = (name, check) =>
    objects.until(namespace, `endpointslices/${name}`, check);
  const untilStatus = (name: string, matches: (status: InferenceReplica["status"]) => boolean) =>
    untilReplica(name, (found) => {
      if (found !== undefined && matches(found.status)) return found;
      throw new Error(`${name}: ${JSON.stringify(found?.status)}`);
    });
  const place = { root, kubeconfig, hostName, address, ports: enginePorts() };
  const startAgent: Bench["startAgent"] = async (changes = {}) => {
    const agent = await startAgentAt(place, changes);
    agents.add(agent);
    return { ...agent, end: () => agent.end().finally(() => agents.delete(agent)) };
  };

  return {
    stateDir,
    place,
    modelPath,
    address,
    client,
    objects,
    startAgent,
    replica: get,
    untilReplica,
    untilGone: (name) => untilReplica(name, (found) => expect(found).toBeUndefined()),
    untilSlice,
    untilAnnounced: (name, isReady) =>
      untilSlice(name, (slice) => expect(slice?.endpoints?.[0]?.conditions?.ready).toBe(isReady)),
    createReplica: async (name, change) => {
      const object = newReplica({ name, namespace, hostName, modelPath });
      change?.(object.spec);
      const slice = newSlice({ name, namespace, hostName });
      must(await client.create(ENDPOINT_SLICES, slice));
      return must(await client.create(INFERENCE_REPLICAS, object));
    },
    slice: async (name) => {
      const answer = await client.get(ENDPOINT_SLICES, { name, namespace });
      return answer.ok ? answer.value : undefined;
    },
    patchSpec: async (name, spec) => {
      await objects.patch(namespace, `inferencereplicas/${name}`, { spec });
    },
    deleteReplica: async (name) => {
      must(await client.remove(INFERENCE_REPLICAS, { name, namespace }));
    },
    untilPhase: (name, phase) => untilStatus(name, (status) => status?.phase === phase),
    untilReason: (name, reason) => untilStatus(name, (status) => status?.reason === reason),
    untilExit: (name, reason) => untilStatus(name, (status) => status?.lastExit?.reason === reason),
    program: (script, path = join(root, `engine-${Math.random().toString(36).slice(2)}`)) => {
      const ask = 'case "$*" in *--help*|*--version*|*--list-devices*) exec "$REAL" "$@";; esac';
      writeFileSync(path, `#!/bin/sh\nREAL=${findLlamaServer() ?? "false"}\n${ask}\n${script}\n`);
      chmodSync(path, 0o755);
      return path;
    },
    drivers: (path, searchPath) => (options) =>
      createEngineDrivers({ ...options, env: { PATH: searchPath }, config: { llamaServer: [path] } }),
    lines: (file, count) =>
      until(() => {
        const found = readFileSync(join(root, file), "utf8")
          .split("\n")
          .filter((line) => line !== "");
        if (found.length < count) throw new Error(`${found.length} of ${count} lines`);
        return found.map(Number);
      }),
    [Symbol.asyncDispose]: async () => {
      try {
        await removeAll(client, namespace);
        if (agents.size === 0) await startAgent();
        await until(() => {
          for (const { runner } of agents) expect(runner.snapshot()).toEqual([]);
        });
      } finally {
        // Also after a failure: an agent left behind would keep running beside the following tests.
        for (const agent of [...agents]) await agent.end().catch(() => undefined);
        objects[Symbol.dispose]();
        rmSync(root, { recursive: true, force: true });
      }
    },
  };
}

/** An address of this machine that an EndpointSlice may hold. */
function outsideAddress(): string {
  for (const list of Object.values(networkInterfaces())) {
    const found = list?.find(({ internal, family }) => !internal && family === "IPv4");
    if (found !== undefined) return found.address;
  }
  throw new Error("this machine has no address beside loopback");
}

async function removeAll(client: KubeClient, namespace: string): Promise<void> {
  const { items } = must(await client.list(INFERENCE_REPLICAS, { namespace }));
  for (const { metadata } of items) {
    await client.remove(INFERENCE_REPLICAS, { name: metadata.name, namespace });
  }
}

interface Names {
  readonly name: string;
  readonly namespace: string;
  readonly hostName: string;
}

function newSlice({ name, namespace, hostName }: Names): EndpointSlice {
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      name,
      namespace,
      labels: {
        [LABEL_HOST]: hostName,
        [LABEL_SERVICE_NAME]: "chat",
        [LABEL_SLICE_MANAGED_BY]: SLICE_MANAGED_BY,
      },
      // As if the Host allowed every address; without it an agent with a credential of its own may write none.
      annotations: { [ANNOTATION_ADDRESSES]: "0.0.0.0/0,::/0" },
    },
    addressType: "IPv4",
    endpoints: [],
    ports: [],
  } as EndpointSlice;
}

function newReplica({
  name,
  namespace,
  hostName,
  modelPath,
}: Names & { readonly modelPath: string }): InferenceReplica {
  return {
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "InferenceReplica",
    metadata: { name, namespace, finalizers: [FINALIZER_ENGINE] },
    spec: {
      template: {
        hostName,
        serviceName: "chat",
        serviceUid: "0d9c3f0e-3c35-4f7a-9d4c-0d4b2c8a7f11",
        revision: "0123456789",
        runtime: "llamacpp",
        model: { source: modelPath, files: [], format: "gguf", refreshPolicy: "IfNotPresent" },
        engine: { mode: "chat", contextSize: 512, parallelSlots: 1, extraArgs: ONE_THREAD },
      },
      memory: { claimBytes: 64 * 1024 ** 2, weightsBytes: 1024 ** 2 },
    },
  } as unknown as InferenceReplica;
}
