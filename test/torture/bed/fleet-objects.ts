/** The objects that users of the farm make and change. */

import { ANNOTATION_RESTARTED_AT, API_VERSION } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { mainModelOf } from "../../../src/api/inference-service/roles.ts";
import { HOSTS, INFERENCE_SERVICES, MODELS } from "../../../src/api/kinds.ts";
import type { Model } from "../../../src/api/model.ts";
import { PODS, SERVICES } from "../../../src/kube/kinds.ts";
import type { JsonPatchOp, KubeClient } from "../../../src/kube/types.ts";
import { ONE_THREAD } from "../../bed/agent.ts";
import { model, serviceAnywhere } from "../../bed/manifests.ts";
import { must } from "../../bed/must.ts";
import { DRAIN_SECONDS, type EngineName, type ServiceName } from "../plan/catalog.ts";
import type { ModelServer } from "./models.ts";

export const NAMESPACE = "default";

/** Silence after which a host's replicas are rescheduled; just past its Lease. */
export const HOST_LOST_SECONDS = 50;

const REPLICAS: Readonly<Record<ServiceName, number>> = {
  steady: 2,
  elastic: 2,
  brief: 1,
  podded: 2,
  mixed: 2,
};

/** `mixed` has one replica on a host, and the others in pods. */
const PLACEMENTS: Partial<Record<ServiceName, object>> = {
  podded: { on: "Pods" },
  mixed: { on: "Auto", hosts: ["mac-a"], spread: "Required" },
};

export interface FleetObjects {
  readonly createHost: (name: string, cidr: string) => Promise<void>;
  /** With a model of its own; safe to repeat until both are there. */
  readonly createService: (name: ServiceName, generation: number) => Promise<void>;
  readonly deleteService: (name: ServiceName) => Promise<void>;
  readonly patchService: (name: ServiceName, path: string, value: unknown) => Promise<void>;
  /** Pods of the service are replaced as kubectl rollout restart does. */
  readonly restartService: (name: ServiceName, now: string) => Promise<void>;
  readonly deletePod: (name: string) => Promise<void>;
  readonly patchHost: (name: string, path: string, value: unknown) => Promise<void>;
  readonly deleteHost: (name: string) => Promise<void>;
  /** Undefined where there is none. */
  readonly addressOf: (name: ServiceName) => Promise<string | undefined>;
}

/** Each call is one write; it rejects where the API server does not take it. */
export function fleetObjects(client: KubeClient, models: ModelServer, engine: EngineName): FleetObjects {
  const at = (name: string) => ({ name, namespace: NAMESPACE });
  const patch = (path: string, value: unknown): JsonPatchOp[] => [{ op: "add", path, value }];
  return {
    createHost: async (name, cidr) => {
      const host = { apiVersion: API_VERSION, kind: "Host", metadata: { name }, spec: { addresses: [cidr] } };
      must(await client.create(HOSTS, host as unknown as Host));
    },
    createService: async (name, generation) => {
      const modelName = `${name}-${generation}`;
      const made = await client.create(INFERENCE_SERVICES, serviceOf(name, modelName, engine));
      if (!made.ok && made.error.kind === "alreadyExists") {
        const there = await client.get(INFERENCE_SERVICES, at(name));
        const isThere = there.ok && there.value.metadata.deletionTimestamp === undefined;
        if (!isThere) throw new Error(`${name} is still being deleted`);
        // It was deleted twice, and the other one makes it again.
        if (there.value.spec.modelRef !== modelName) return;
      } else must(made);
      const accelerator = PLACEMENTS[name] === undefined ? "metal" : "cpu";
      const object = model(modelName, models.urlOf(modelName), { hardware: { accelerator } });
      const modelMade = await client.create(MODELS, object as Model);
      if (!modelMade.ok && modelMade.error.kind !== "alreadyExists") must(modelMade);
    },
    deleteService: async (name) => {
      const found = await client.get(INFERENCE_SERVICES, at(name));
      if (!found.ok && found.error.kind === "notFound") return;
      const { spec } = must(found);
      must(await client.remove(INFERENCE_SERVICES, at(name)));
      // Where an earlier one was deleted before its model was made there is none.
      const removed = await client.remove(MODELS, at(mainModelOf(spec)));
      if (!removed.ok && removed.error.kind !== "notFound") must(removed);
    },
    patchService: async (name, path, value) => {
      must(await client.jsonPatch(INFERENCE_SERVICES, at(name), patch(path, value)));
    },
    restartService: async (name, now) => {
      const { metadata } = must(await client.get(INFERENCE_SERVICES, at(name)));
      const value = { ...metadata.annotations, [ANNOTATION_RESTARTED_AT]: now };
      must(await client.jsonPatch(INFERENCE_SERVICES, at(name), patch("/metadata/annotations", value)));
    },
    deletePod: async (name) => {
      must(await client.remove(PODS, at(name)));
    },
    patchHost: async (name, path, value) => {
      must(await client.jsonPatch(HOSTS, { name }, patch(path, value)));
    },
    deleteHost: async (name) => {
      must(await client.remove(HOSTS, { name }));
    },
    addressOf: async (name) => {
      const service = await client.get(SERVICES, at(name));
      return service.ok ? service.value.spec?.clusterIP : undefined;
    },
  };
}

/** A field, a value of it that the engine accepts, and one with which it cannot start. */
export const BAD_FIELD: Readonly<Record<EngineName, { field: string; good: unknown; bad: unknown }>> = {
  llamacpp: { field: "extraArgs", good: ONE_THREAD, bad: [...ONE_THREAD, "--no-such-flag"] },
  // It has one type for keys and values.
  ollama: { field: "cacheTypeK", good: "f16", bad: "q8_0" },
};

function serviceOf(name: ServiceName, modelRef: string, engine: EngineName): InferenceService {
  const { field, good } = BAD_FIELD[engine];
  const spec = {
    modelRef,
    replicas: REPLICAS[name],
    contextSize: 1024,
    parallelSlots: 2,
    hostLostSeconds: HOST_LOST_SECONDS,
    runtime: engine,
    extraArgs: undefined,
    [field]: good,
    placement: PLACEMENTS[name],
    modelCache: PLACEMENTS[name] && { persistence: "Ephemeral" },
    rollout: { drainSeconds: DRAIN_SECONDS },
  };
  return serviceAnywhere(name, spec) as InferenceService;
}
