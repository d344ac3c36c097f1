/** The input of the tools: the density state, and the cluster's objects that the caller may see. */

import type { Density } from "../../fitness/density/density.ts";
import { createLlmfitRest, type LlmfitRest } from "../../fitness/llmfit/rest/rest.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import type { Kind, KubeObject } from "../../src/kube/types.ts";
import { type Moment, momentOf } from "../../src/util/moment.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { ClusterWatches } from "../cluster/cluster.ts";

export interface McpContext {
  readonly now: () => Moment;
  /** The machines of the cluster that the caller may see; rejects with MetalbridgeError without a cluster. */
  readonly density: () => Promise<SeenDensity>;
  /** Only the machine of this program; absent in a pod. */
  readonly localDensity?: () => Promise<Density>;
  /** Uses the catalog of the density. */
  readonly llmfit: LlmfitRest;
  readonly cluster: <T>(use: (cluster: ClusterObjects) => Promise<T>) => Promise<T>;
  /** Absent if not allowed. */
  readonly deploy?: Deploy;
}

export interface SeenDensity {
  readonly density: Density;
  /** What it does not contain, and why. */
  readonly missing?: readonly string[];
}

export interface ClusterObjects {
  /** Default namespace. */
  readonly namespace: string;
  /** Objects of one namespace, or of all that the caller may see. Rejects with MetalbridgeError. */
  readonly list: <T extends KubeObject>(kind: Kind<T>, namespace?: string) => Promise<readonly T[]>;
  /** What the lists so far do not contain, and why. */
  readonly missing?: () => readonly string[];
}

export interface DeployRequest {
  readonly model: string;
  readonly name?: string | undefined;
  readonly namespace?: string | undefined;
  readonly runtime?: string | undefined;
  readonly quantization?: string | undefined;
  readonly replicas?: number | undefined;
  readonly contextSize?: number | undefined;
  readonly slots?: number | undefined;
  readonly priority?: string | undefined;
}

/** Creates the objects once `isAllowed` resolves to true for the question to the user. Undefined if it resolves to false. */
export type Deploy = (
  request: DeployRequest,
  isAllowed: (question: string) => Promise<boolean>,
) => Promise<{ readonly service: string; readonly model: string } | undefined>;

/** The context in the cluster: uses only the watches, without requests to the API server. */
export function watchedContext(density: Density, watches: ClusterWatches, clock: Clock): McpContext {
  const watched: Readonly<Record<string, { readonly list: () => readonly KubeObject[] }>> = {
    [HOSTS.plural]: watches.hosts,
    [INFERENCE_REPLICAS.plural]: watches.replicas,
    [INFERENCE_SERVICES.plural]: watches.services,
    [MODELS.plural]: watches.models,
  };
  const list = async <T extends KubeObject>({ plural }: Kind<T>, namespace?: string) => {
    const all = (watched[plural]?.list() ?? []) as readonly T[];
    return namespace === undefined ? all : all.filter(({ metadata }) => metadata.namespace === namespace);
  };
  return {
    now: () => momentOf(clock),
    density: async () => ({ density }),
    llmfit: createLlmfitRest(density.fits.records),
    cluster: (use) => use({ namespace: "default", list }),
  };
}

/** An error about the caller's arguments, with a message for a model. */
export function invalidArgument(message: string): MetalbridgeError {
  return new MetalbridgeError("McpArgumentInvalid", message);
}
