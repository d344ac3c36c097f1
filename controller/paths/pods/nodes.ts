/** placement.mode Auto: which nodes the pods of a service are kept away from, which they prefer, and when that changes. Pure. */
import { z } from "zod";
import type { ConditionUpdate } from "../../../src/api/conditions.ts";
import { ANNOTATION_NODE_CHOICE } from "../../../src/api/group.ts";
import type { InferenceServiceSpec } from "../../../src/api/inference-service/index.ts";
import { formatBytes } from "../../../src/bytes.ts";
import { isDeepEqual } from "../../../src/deep-equal.ts";
import { type NodeRead, nodeMachineFor, type PodOn } from "../../../src/fitness/node.ts";
import { fitReplica, type ReplicaFit, type ReplicaNeed } from "../../../src/fitness/replica-fit.ts";
import type { Deployment } from "../../../src/kube/workload-objects.ts";
import type { NodeChoice } from "../../../src/linux/contract.ts";

export interface JudgedNode {
  readonly name: string;
  readonly hostname: string;
  readonly fit: ReplicaFit;
}

/** By name, without nodes that lack the GPUs: the scheduler knows those. */
export function judgeNodes(need: ReplicaNeed, pod: PodOn, nodes: readonly NodeRead[]): readonly JudgedNode[] {
  return nodes
    .flatMap((node) => {
      const { name, hostname } = node;
      const read = nodeMachineFor(node, pod);
      if (read.at === "noGpus") return [];
      const fit: ReplicaFit =
        read.at === "known" ? fitReplica(need, read.machine) : { at: "unknown", why: read.why };
      return [{ name, hostname, fit }];
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** What a Deployment can name without growing beyond reason. */
const MOST_AVOIDED = 256;
const MOST_PREFERRED = 32;
/** Scores that differ by less are the same to the scheduler. */
const WEIGHT_STEP = 5;
const NONE: ReadonlySet<string> = new Set();

/** `leaving`: names of nodes that its pods leave for better ones; `stayed`: of those that they could not leave. */
export function choiceOf(
  judged: readonly JudgedNode[],
  leaving: ReadonlySet<string> = NONE,
  stayed: ReadonlySet<string> = NONE,
): NodeChoice {
  const avoid = judged
    .filter(({ name, fit }) => leaving.has(name) || (fit.at === "tooSmall" && !stayed.has(name)))
    .map(({ hostname }) => hostname);
  const byWeight = new Map<number, string[]>();
  const stays = byScore(judged).filter(({ name }) => !leaving.has(name));
  for (const { hostname, score } of stays.slice(0, MOST_PREFERRED)) {
    const weight = Math.min(100, Math.max(1, Math.round(score / WEIGHT_STEP) * WEIGHT_STEP));
    byWeight.set(weight, [...(byWeight.get(weight) ?? []), hostname].sort());
  }
  return {
    avoid: avoid.slice(0, MOST_AVOIDED).sort(),
    prefer: [...byWeight].map(([weight, nodes]) => ({ weight, nodes })),
  };
}

interface Scored {
  readonly name: string;
  readonly hostname: string;
  readonly score: number;
  readonly speed: string;
}

function byScore(judged: readonly JudgedNode[]): readonly Scored[] {
  return judged
    .flatMap(({ name, hostname, fit }) => {
      if (fit.at !== "fits" || fit.scored === undefined) return [];
      const { score, tokensPerSecond } = fit.scored;
      const speed = `${Number(tokensPerSecond.value.toPrecision(2))} tokens/s ${tokensPerSecond.basis}`;
      return [{ name, hostname, score, speed }];
    })
    .sort((a, b) => b.score - a.score || (a.name < b.name ? -1 : 1));
}

const choiceSchema = z.object({
  avoid: z.array(z.string()),
  prefer: z.array(z.object({ weight: z.number(), nodes: z.array(z.string()) })),
});

/** What an earlier pass has chosen; undefined where none has, or where the annotation was edited. */
export function chosenBefore(current: Deployment | undefined): NodeChoice | undefined {
  try {
    const text = current?.metadata.annotations?.[ANNOTATION_NODE_CHOICE];
    return text === undefined ? undefined : choiceSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

export interface Settling {
  readonly before: NodeChoice | undefined;
  readonly fresh: NodeChoice;
  /** With the earlier choice the template would be what it is. */
  readonly isTemplateSame: boolean;
  /** Pods find no node. */
  readonly isWaiting: boolean;
  /** Pods leave a node for a better one. */
  readonly isMoving: boolean;
}

/**
 * A choice is part of the template, so a new one replaces the pods. It is taken where the template changes anyway, where pods
 * that wait for a node might find one with it, and where live eviction moves pods. Scores that move are no reason, nor are nodes that join or leave.
 */
export function settle({ before, fresh, isTemplateSame, isWaiting, isMoving }: Settling): NodeChoice {
  if (before === undefined || !isTemplateSame) return fresh;
  return (isWaiting || isMoving) && !isDeepEqual(before.avoid, fresh.avoid) ? fresh : before;
}

/** spec.nodeSelector and node affinity are the user's word. */
export function isChosenByUser({ nodeSelector, affinity }: InferenceServiceSpec): boolean {
  return nodeSelector !== undefined || affinity?.nodeAffinity !== undefined;
}

export type NodesSeen =
  | { readonly at: "chosenByUser" }
  | { readonly at: "judged"; readonly judged: readonly JudgedNode[] };

const MOST_NAMED = 3;

/** Which nodes, with score and basis, and why the others are not preferred. */
export function nodesCondition(seen: NodesSeen): ConditionUpdate {
  const type = "NodesScored";
  if (seen.at === "chosenByUser") {
    const message = "spec.nodeSelector or spec.affinity chooses the nodes; placement.mode Auto adds nothing";
    return { type, status: "False", reason: "ChosenByUser", message };
  }
  const { judged } = seen;
  const scored = byScore(judged).map(
    ({ name, score, speed }) => `${name} (score ${Math.round(score)} of 100, ${speed})`,
  );
  const plain = judged.filter(({ fit }) => fit.at === "fits" && fit.scored === undefined);
  const words = [
    listed("prefers", scored),
    listed(
      "fits",
      plain.map(({ name }) => name),
      "; the catalogue does not have the model, so they are not scored",
    ),
    listed("kept out", judged.flatMap(tooSmallText)),
    listed("left to the scheduler", judged.flatMap(unknownText)),
  ].filter((text) => text !== "");
  const message = words.join("; ");
  if (judged.length === 0)
    return {
      ...{ type, status: "Unknown", reason: "NoNodes" },
      message: "no node has what the pods ask for; the scheduler waits for one",
    };
  if (judged.every(({ fit }) => fit.at === "tooSmall"))
    return { type, status: "False", reason: "NoNodeFits", message: `no node holds the model; ${message}` };
  const isKnown = scored.length > 0 || judged.some(({ fit }) => fit.at !== "unknown");
  return isKnown
    ? { type, status: "True", reason: "NodesScored", message }
    : { type, status: "Unknown", reason: "NodesUnknown", message };
}

function tooSmallText({ name, fit }: JudgedNode): string[] {
  if (fit.at !== "tooSmall") return [];
  return [`${name} (offers ${formatBytes(fit.budgetBytes)} of the ${formatBytes(fit.claimBytes)} it needs)`];
}

function unknownText({ name, fit }: JudgedNode): string[] {
  return fit.at === "unknown" ? [`${name} (${fit.why})`] : [];
}

function listed(verb: string, names: readonly string[], after = ""): string {
  if (names.length === 0) return "";
  const more = names.length > MOST_NAMED ? ` and ${names.length - MOST_NAMED} more` : "";
  return `${verb}: ${names.slice(0, MOST_NAMED).join(", ")}${more}${after}`;
}
