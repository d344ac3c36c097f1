/** Runs the probe pods: a limited number at once, followed by a watch, and all deleted at the end. */

import { randomUUID } from "node:crypto";
import {
  fitProbePod,
  isStaleProbePod,
  LABEL_RUN,
  PROBE_LABELS,
  type ProbeOutcome,
  type ProbePodPlan,
  probeFailed,
  probeNodeFailure,
  readFitPod,
} from "../../controller/workload/one-shot-pod.ts";
import { NODES, PODS } from "../../src/kube/kinds.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { ApiFailure } from "../../src/kube/types.ts";
import type { Node, Pod } from "../../src/kube/workload-objects.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { type Follower, follow } from "../cluster/follow.ts";
import { printNote } from "../program/output.ts";

export interface ProbeOptions extends Pick<ProbePodPlan, "namespace" | "image" | "pullSecrets"> {
  readonly concurrency: number;
  /** Time limit for one pod. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

export type FitProbeResult = Exclude<ProbeOutcome, { readonly at: "waiting" }>;
export type FitProbeResults = ReadonlyMap<string, FitProbeResult>;

interface Running {
  readonly name: string;
  why: string;
  wasSeen: boolean;
  readonly cancel: () => void;
}

/** The results by node. Undefined if the user stopped the command. Always deletes all pods. */
export async function probeNodes(
  cluster: Cluster,
  nodes: readonly Node[],
  options: ProbeOptions,
): Promise<FitProbeResults | undefined> {
  await removeLeftovers(cluster, options.namespace);
  const run = new Run(cluster, nodes, options);
  try {
    const followed = await follow<FitProbeResults>(cluster, { signal: options.signal }, (follower) =>
      run.begin(follower),
    );
    return followed.at === "finished" ? followed.value : undefined;
  } finally {
    await run.end();
  }
}

class Run {
  readonly #cluster: Cluster;
  readonly #options: ProbeOptions;
  readonly #id = randomUUID().slice(0, 8);
  readonly #waiting: Node[];
  readonly #running = new Map<string, Running>();
  readonly #ends = new Map<string, FitProbeResult>();
  readonly #creations = new Set<Promise<void>>();
  readonly #removals = new Set<Promise<unknown>>();
  #count = 0;
  #isEnded = false;
  #finish: (ends: FitProbeResults) => void = () => {};

  constructor(cluster: Cluster, nodes: readonly Node[], options: ProbeOptions) {
    this.#cluster = cluster;
    this.#options = options;
    this.#waiting = nodes.filter((node) => {
      const failure = probeNodeFailure(node);
      if (failure !== undefined) this.#ends.set(node.metadata.name, failure);
      return failure === undefined;
    });
  }

  begin({ watch, finish }: Follower<FitProbeResults>): void {
    this.#finish = finish;
    const { namespace } = this.#options;
    const inspect = () => {
      const byName = new Map(pods.list().map((pod) => [pod.metadata.name, pod]));
      for (const [node, running] of this.#running)
        this.#judge(node, running, byName.get(running.name), nodes.get(node));
      this.#next();
    };
    const pods = watch(PODS, { namespace, labelSelector: `${LABEL_RUN}=${this.#id}` }, inspect);
    const nodes = watch(NODES, {}, inspect);
  }

  /** Resolves when all pods of this run are deleted. */
  async end(): Promise<void> {
    this.#isEnded = true;
    await Promise.all(this.#creations);
    for (const { name, cancel } of this.#running.values()) {
      cancel();
      this.#remove(name);
    }
    await Promise.all(this.#removals);
  }

  #judge(node: string, running: Running, pod: Pod | undefined, object: Node | undefined): void {
    if (pod !== undefined) running.wasSeen = true;
    const seen = pod === undefined ? undefined : readFitPod(pod);
    if (seen?.at === "waiting") running.why = seen.why;
    if (seen !== undefined && seen.at !== "waiting") {
      this.#settle(node, seen);
      return;
    }
    const failure = probeNodeFailure(object);
    if (failure !== undefined) this.#settle(node, failure);
    else if (pod === undefined && running.wasSeen)
      this.#settle(node, probeFailed("PodDeleted", "the pod was deleted before it reported"));
  }

  #settle(node: string, end: FitProbeResult): void {
    const running = this.#running.get(node);
    this.#running.delete(node);
    running?.cancel();
    if (running !== undefined) this.#remove(running.name);
    this.#ends.set(node, end);
  }

  #next(): void {
    if (this.#isEnded) return;
    // A pod that is being deleted still counts.
    while (this.#running.size + this.#removals.size < this.#options.concurrency) {
      const node = this.#waiting.shift();
      if (node === undefined) break;
      this.#start(node.metadata.name);
    }
    if (this.#running.size === 0 && this.#waiting.length === 0) this.#finish(this.#ends);
  }

  #start(node: string): void {
    const { timeoutMs, namespace, image, pullSecrets } = this.#options;
    this.#count += 1;
    const name = `metalbridge-fit-${this.#id}-${this.#count}`;
    const onTimeout = () => {
      const why = this.#running.get(node)?.why ?? "";
      this.#settle(node, probeFailed("DeadlineExceeded", why, "Timeout"));
      this.#next();
    };
    const running = { name, why: "the pod has not started", wasSeen: false };
    this.#running.set(node, { ...running, cancel: systemClock.after(timeoutMs, onTimeout) });
    const deadlineSeconds = Math.max(1, Math.ceil(timeoutMs / 1_000));
    const pod = fitProbePod({ name, namespace, node, run: this.#id, image, pullSecrets, deadlineSeconds });
    const creation = this.#cluster.client.create(PODS, pod).then((made) => {
      this.#creations.delete(creation);
      if (!made.ok) this.#refused(node, name, made.error);
      // The run was stopped, or the time limit expired, before the pod existed.
      else if (this.#running.get(node)?.name !== name) this.#remove(name);
    });
    this.#creations.add(creation);
  }

  /** Also deletes the pod, which may exist if only the response was lost. */
  #refused(node: string, name: string, { reason, message }: ApiFailure): void {
    if (this.#running.get(node)?.name !== name) return;
    this.#settle(node, probeFailed(reason, message));
    this.#next();
  }

  #remove(name: string): void {
    const { namespace } = this.#options;
    const removal = this.#cluster.client.remove(PODS, { name, namespace }).then((removed) => {
      this.#removals.delete(removal);
      if (!removed.ok && removed.error.kind !== "notFound")
        printNote(`pod ${name} was not deleted: ${removed.error.message}`);
      this.#next();
    });
    this.#removals.add(removal);
  }
}

/** Deletes pods of killed runs. They stop at their deadline, but nothing else deletes them. */
async function removeLeftovers({ client, connection }: Cluster, namespace: string): Promise<void> {
  const labelSelector = `app.kubernetes.io/name=${PROBE_LABELS["app.kubernetes.io/name"]}`;
  const found = await client.list(PODS, { namespace, labelSelector });
  if (!found.ok) return;
  const nowMs = Date.now() + (connection.serverAheadMs() ?? 0);
  const left = found.value.items.filter((pod) => isStaleProbePod(pod, nowMs));
  await Promise.all(left.map(({ metadata: { name } }) => client.remove(PODS, { name, namespace })));
}
