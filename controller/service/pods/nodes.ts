/** placement.mode Auto: decides which nodes the pods of a service avoid and prefer, and when that choice changes. Pure. */
import { z } from "zod";
import type { ConditionUpdate } from "../../../src/api/conditions.ts";
import { ANNOTATION_NODE_CHOICE, ANNOTATION_NODE_MOVE } from "../../../src/api/group.ts";
import type { InferenceServiceSpec } from "../../../src/api/inference-service/index.ts";
import type { NodeRead, PodAccelerator, ReplicaFit, ReplicaScorer } from "../../../src/capacity/fitness.ts";
import type { Deployment } from "../../../src/kube/workload-objects.ts";
import { formatBytes } from "../../../src/util/bytes.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import { isoSeconds } from "../../../src/util/iso-seconds.ts";
import type { NodeChoice } from "../../workload/contract.ts";

export interface JudgedNode {
  readonly name: string;
  readonly hostname: string;
  readonly fit: ReplicaFit;
}

/** Sorted by name, without nodes that lack the GPUs, which the scheduler excludes. */
export function judgeNodes(
  scorer: ReplicaScorer,
  pod: PodAccelerator,
  nodes: readonly NodeRead[],
): readonly JudgedNode[] {
  return nodes
    .map((node) => ({ name: node.name, hostname: node.hostname, fit: scorer.fitOn({ node, pod }) }))
    .filter(({ fit }) => fit.at !== "noGpus")
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Maximum number of nodes to avoid, to limit the size of a Deployment. */
const MAX_AVOIDED = 256;
const MAX_PREFERRED = 32;
/** Weights are multiples of this, so the scheduler ignores smaller differences between scores. */
const WEIGHT_STEP = 5;
const NONE: ReadonlySet<string> = new Set();

/** `leaving` names nodes that pods leave for better ones; `notTo` names nodes that are no better than those. */
export function nodeChoiceOf(
  judged: readonly JudgedNode[],
  leaving: ReadonlySet<string> = NONE,
  notTo: ReadonlySet<string> = NONE,
): NodeChoice {
  // These come first in case not all can be named: nothing else keeps pods off them.
  const places = [leaving, notTo].map((names) => judged.filter(({ name }) => names.has(name)));
  const others = judged.filter(({ name }) => !leaving.has(name) && !notTo.has(name));
  const unfit = [...places.flat(), ...others.filter(({ fit }) => fit.at === "tooSmall")];
  const avoid = [...new Set(unfit.map(({ hostname }) => hostname))].slice(0, MAX_AVOIDED);
  const byWeight = new Map<number, string[]>();
  for (const { hostname, score } of byScore(others).slice(0, MAX_PREFERRED)) {
    const weight = Math.min(100, Math.max(1, Math.round(score / WEIGHT_STEP) * WEIGHT_STEP));
    byWeight.set(weight, [...(byWeight.get(weight) ?? []), hostname].sort());
  }
  return {
    avoid: avoid.sort(),
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

/** A move in progress: pods of an earlier choice still serve while those of the new choice start. */
export interface NodeMove {
  readonly since: string;
  /** The choice to return to if the move fails; absent if the reason for the move is pending pods. */
  readonly before?: NodeChoice;
}

const moveSchema: z.ZodType<NodeMove> = z.object({
  since: z.iso.datetime(),
  before: choiceSchema.optional(),
});

/** The choice of an earlier pass; undefined if there is none, or if the annotation was edited. */
export function previousNodeChoice(current: Deployment | undefined): NodeChoice | undefined {
  return annotated(current, ANNOTATION_NODE_CHOICE, choiceSchema);
}

/** Undefined if no choice is being rolled out, or if the annotation was edited. */
export function nodeMoveInProgress(current: Deployment | undefined): NodeMove | undefined {
  return annotated(current, ANNOTATION_NODE_MOVE, moveSchema);
}

function annotated<T>(current: Deployment | undefined, name: string, schema: z.ZodType<T>): T | undefined {
  try {
    const text = current?.metadata.annotations?.[name];
    return text === undefined ? undefined : schema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** Timeout of a move. After it the scores may be outdated, so the choice is made again. */
export const MOVE_MS = 1_800_000;

export interface NodeChoiceInput {
  readonly before: NodeChoice | undefined;
  readonly fresh: NodeChoice;
  /** True if the earlier choice gives the Deployment's current template. */
  readonly isTemplateSame: boolean;
  /** Undefined without fitness. An earlier choice then holds until the template changes or pods are pending. */
  readonly judged: readonly JudgedNode[] | undefined;
  /** Names of nodes that pods leave for better ones. */
  readonly leaving: ReadonlySet<string>;
  /** The move in the Deployment's annotation. */
  readonly move: NodeMove | undefined;
  /** True if the Deployment has the strategy of a move, and the service specifies another. */
  readonly hasMoveStrategy: boolean;
  readonly pods: {
    /** True if a pod is ready. */
    readonly isServing: boolean;
    /** True if some pods find no node. */
    readonly isWaiting: boolean;
    /** True if other pods are preempted for one of these, or one of the service's pods is being deleted. */
    readonly isRoomMade: boolean;
    /** Names of the nodes of live pods. */
    readonly on: readonly string[];
    /** True if some live pods are of another template than the Deployment's. */
    readonly hasOld: boolean;
    /** By the Deployment's status, because the pod cache may be ahead of it and show pods of a newer template. */
    readonly isRollingOut: boolean;
  };
  readonly nowMs: number;
}

export interface SettledNodeChoice {
  readonly choice: NodeChoice;
  /** During a move, no pod stops before its replacement is ready, even with GPUs. */
  readonly move?: NodeMove;
  /** The reason why a move failed or did not start. */
  readonly blocked?: "NoNode" | "NotReady" | "RollingOut";
  readonly recheckAfterMs?: number;
}

/**
 * A choice is part of the template, so a new choice replaces the pods. It is used if the template changes for another reason, if
 * pending pods would now fit an avoided node, or if live eviction moves pods. New scores, and nodes that join or leave, are no
 * reason to restart pods.
 */
export function settleNodeChoice(input: NodeChoiceInput): SettledNodeChoice {
  const { before, fresh, isTemplateSame, judged = [], leaving } = input;
  if (before === undefined || !isTemplateSame) return { choice: fresh };
  const move = moveOf(input);
  const isStarting = judged.some(
    ({ name, hostname }) => leaving.has(name) && !before.avoid.includes(hostname),
  );
  if (isStarting) return startMove(input, before, move);
  const home = move?.before;
  if (move !== undefined && home !== undefined) return continueMove(input, before, { ...move, before: home });
  return choiceForPendingPods(input, before, move) ?? { choice: before, move };
}

/** A move lasts until no old pod is left. If its annotation is lost, it must continue, or the service's strategy would stop ready pods. */
function moveOf({ move, hasMoveStrategy, pods, nowMs }: NodeChoiceInput): NodeMove | undefined {
  if (!pods.hasOld) return undefined;
  const isLost = move === undefined && hasMoveStrategy && pods.isServing;
  return isLost ? { since: isoSeconds(nowMs) } : move;
}

function startMove(
  { fresh, pods, nowMs }: NodeChoiceInput,
  before: NodeChoice,
  move: NodeMove | undefined,
): SettledNodeChoice {
  if (findsNoNode(pods)) return { choice: before, move, blocked: "NoNode" };
  if (move === undefined && pods.isRollingOut) return { choice: before, move, blocked: "RollingOut" };
  return { choice: fresh, move: { since: isoSeconds(nowMs), before: move?.before ?? before } };
}

/** Continues a move to this choice, or the return to it. Each has the full timeout. */
function continueMove(
  { judged = [], pods, nowMs }: NodeChoiceInput,
  choice: NodeChoice,
  move: NodeMove & { readonly before: NodeChoice },
): SettledNodeChoice {
  const { since, before: home } = move;
  // The annotation may be edited, and clocks differ.
  const leftMs = Math.min(MOVE_MS, Date.parse(since) + MOVE_MS - nowMs);
  const inProgress = { choice, move, recheckAfterMs: leftMs };
  if (isDeepEqual(home, choice)) return leftMs > 0 ? inProgress : { choice };
  if (leftMs > 0 && !findsNoNode(pods)) return inProgress;
  const now = isoSeconds(nowMs);
  const hasPodsToReturn = judged.some(
    ({ name, hostname }) => choice.avoid.includes(hostname) && pods.on.includes(name),
  );
  // Without pods on the nodes to leave, there is nothing to return to.
  if (!hasPodsToReturn) return { choice, move: { since: now } };
  const blocked = findsNoNode(pods) ? "NoNode" : "NotReady";
  return { choice: home, move: { since: now, before: home }, blocked };
}

function findsNoNode({ isWaiting, isRoomMade }: NodeChoiceInput["pods"]): boolean {
  return isWaiting && !isRoomMade;
}

/** Undefined if no other choice would help pending pods. */
function choiceForPendingPods(
  { fresh, judged, pods, nowMs }: NodeChoiceInput,
  before: NodeChoice,
  move: NodeMove | undefined,
): SettledNodeChoice | undefined {
  if (!pods.isWaiting) return undefined;
  const isFreed = ({ hostname, fit }: JudgedNode) =>
    fit.at === "fits" && before.avoid.includes(hostname) && !fresh.avoid.includes(hostname);
  if (!(judged?.some(isFreed) ?? before.avoid.length > 0)) return undefined;
  const isMidRollout = move === undefined && pods.isRollingOut;
  return { choice: fresh, move: pods.isServing && !isMidRollout ? { since: isoSeconds(nowMs) } : undefined };
}

/** True if the user chooses nodes by spec.nodeSelector or node affinity, which take precedence. */
export function isChosenByUser({ nodeSelector, affinity }: InferenceServiceSpec): boolean {
  return nodeSelector !== undefined || affinity?.nodeAffinity !== undefined;
}

export type ObservedNodes =
  | { readonly at: "chosenByUser" }
  /** The controller runs without fitness. */
  | { readonly at: "notScored" }
  | { readonly at: "judged"; readonly judged: readonly JudgedNode[] };

const MAX_NAMED = 3;

/** Reports the preferred nodes with their scores, and why the others are not preferred. */
export function nodesCondition(seen: ObservedNodes): ConditionUpdate {
  const type = "NodesScored";
  if (seen.at === "chosenByUser") {
    const message = "spec.nodeSelector or spec.affinity chooses the nodes; placement.mode Auto adds nothing";
    return { type, status: "False", reason: "ChosenByUser", message };
  }
  if (seen.at === "notScored") {
    const message = "fitness scores are off; Kubernetes schedules the pods without preferences";
    return { type, status: "False", reason: "FitnessOff", message };
  }
  const { judged } = seen;
  const scored = byScore(judged).map(
    ({ name, score, speed }) => `${name} (score ${Math.round(score)} of 100, ${speed})`,
  );
  const plain = judged.filter(({ fit }) => fit.at === "fits" && fit.scored === undefined);
  const parts = [
    listed("prefers", scored),
    listed(
      "fits",
      plain.map(({ name }) => name),
      "; the catalog does not have the model, so they are not scored",
    ),
    listed("kept out", judged.flatMap(tooSmallText)),
    listed("left to the scheduler", judged.flatMap(unknownText)),
  ].filter((text) => text !== "");
  const message = parts.join("; ");
  if (judged.length === 0)
    return {
      type,
      status: "Unknown",
      reason: "NoNodes",
      message: "no node has the resources that the pods request; the pods are pending until a node has them",
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
  const more = names.length > MAX_NAMED ? ` and ${names.length - MAX_NAMED} more` : "";
  return `${verb}: ${names.slice(0, MAX_NAMED).join(", ")}${more}${after}`;
}
