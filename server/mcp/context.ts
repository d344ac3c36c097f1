/** What the tools work on: the density state, and the objects of the cluster as the caller may see them. */

import type { Density } from "../../fitness/density/density.ts";
import { createLlmfitRest, type LlmfitRest } from "../../fitness/llmfit/rest/rest.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import type { Kind, KubeObject } from "../../src/kube/types.ts";
import type { Moment } from "../../src/util/moment.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { ClusterWatches } from "../cluster.ts";

export interface McpContext {
  readonly now: () => Moment;
  /** The machines of the cluster; rejects with MetalbridgeError where there is none. */
  readonly density: () => Promise<Density>;
  /** The one that the program runs on, alone; absent where that is a pod. */
  readonly here?: () => Promise<Density>;
  /** Over the catalog that the density has. */
  readonly llmfit: LlmfitRest;
  readonly cluster: <T>(use: (cluster: ClusterObjects) => Promise<T>) => Promise<T>;
  /** Absent: not allowed. */
  readonly deploy?: Deploy;
}

export interface ClusterObjects {
  /** Where none is named. */
  readonly namespace: string;
  /** Of one namespace, or of all. Rejects with MetalbridgeError. */
  readonly list: <T extends KubeObject>(kind: Kind<T>, namespace?: string) => Promise<readonly T[]>;
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

/** Creates what is wished for once `isAllowed`, which asks the user `question`, says yes. Undefined: it said no. */
export type Deploy = (
  wish: DeployRequest,
  isAllowed: (question: string) => Promise<boolean>,
) => Promise<{ readonly service: string; readonly model: string } | undefined>;

/** In the cluster: what the watches know, and no question to the API server. */
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
    now: () => ({ wallMs: clock.nowMs(), monotonicMs: clock.monotonicMs() }),
    density: async () => density,
    llmfit: createLlmfitRest(density.fits.records),
    cluster: (use) => use({ namespace: "default", list }),
  };
}

/** What the caller did wrong, in words for a model. */
export function invalidArgument(message: string): MetalbridgeError {
  return new MetalbridgeError("McpArgumentInvalid", message);
}
