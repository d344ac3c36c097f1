/** placement.mode Auto: which nodes the pods of a service are kept away from, which they prefer, and when that changes. Pure. */
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

/** By name, without nodes that lack the GPUs: the scheduler knows those. */
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

/** What a Deployment can name without growing beyond reason. */
const MAX_AVOIDED = 256;
const MAX_PREFERRED = 32;
/** Scores that differ by less are the same to the scheduler. */
const WEIGHT_STEP = 5;
const NONE: ReadonlySet<string> = new Set();

/** By name: `leaving`, nodes that its pods leave for better ones; `notTo`, nodes that are no better than those. */
export function nodeChoiceOf(
  judged: readonly JudgedNode[],
  leaving: ReadonlySet<string> = NONE,
  notTo: ReadonlySet<string> = NONE,
): NodeChoice {
  // First what no one else keeps pods off, for the case that not all can be named.
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

/** While pods of an earlier choice serve beside those of the present one. */
export interface NodeMove {
  readonly since: string;
  /** What to return to if the move does not end; absent where pods that wait are the reason. */
  readonly before?: NodeChoice;
}

const moveSchema: z.ZodType<NodeMove> = z.object({
  since: z.iso.datetime(),
  before: choiceSchema.optional(),
});

/** What an earlier pass has chosen; undefined if none has, or where the annotation was edited. */
export function previousNodeChoice(current: Deployment | undefined): NodeChoice | undefined {
  return annotated(current, ANNOTATION_NODE_CHOICE, choiceSchema);
}

/** Undefined if no choice is being rolled out, or where the annotation was edited. */
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

/** What was better half an hour ago may be no longer: a move that has not ended is given up, and decided again. */
export const MOVE_MS = 1_800_000;

export interface NodeChoiceInput {
  readonly before: NodeChoice | undefined;
  readonly fresh: NodeChoice;
  /** With the earlier choice the template would be what it is. */
  readonly isTemplateSame: boolean;
  /** Undefined without fitness: an earlier choice holds until the template changes, or pods wait. */
  readonly judged: readonly JudgedNode[] | undefined;
  /** Names of nodes that pods leave for better ones. */
  readonly leaving: ReadonlySet<string>;
  /** As the Deployment has it. */
  readonly move: NodeMove | undefined;
  /** The Deployment has a move's strategy, and the service asks for another. */
  readonly hasMoveStrategy: boolean;
  readonly pods: {
    /** One is ready. */
    readonly isServing: boolean;
    /** Some find no node. */
    readonly isWaiting: boolean;
    /** Others are preempted for one of these, or one of its own is being deleted. */
    readonly isRoomMade: boolean;
    /** Names of the nodes of those that live. */
    readonly on: readonly string[];
    /** Some that live are of another template than the Deployment's. */
    readonly hasOld: boolean;
    /** By the Deployment itself: a cache of pods that is ahead of it shows pods of a template that it does not have yet. */
    readonly isRollingOut: boolean;
  };
  readonly nowMs: number;
}

export interface SettledNodeChoice {
  readonly choice: NodeChoice;
  /** No pod stops before another is ready, GPUs or not. */
  readonly move?: NodeMove;
  /** A move found no place in time, or did not begin. */
  readonly givenUp?: "NoNode" | "NotReady" | "RollingOut";
  readonly recheckAfterMs?: number;
}

/**
 * A choice is part of the template, so a new one replaces the pods. It is taken where the template changes anyway, where pods
 * wait and a node that they are kept off would hold them now, and where live eviction moves pods. Scores that move are no reason,
 * nor are nodes that join or leave.
 */
export function settleNodeChoice(input: NodeChoiceInput): SettledNodeChoice {
  const { before, fresh, isTemplateSame, judged = [], leaving } = input;
  if (before === undefined || !isTemplateSame) return { choice: fresh };
  const move = moveOf(input);
  const isStarting = judged.some(
    ({ name, hostname }) => leaving.has(name) && !before.avoid.includes(hostname),
  );
  if (isStarting) return begin(input, before, move);
  const home = move?.before;
  if (move !== undefined && home !== undefined) return goOn(input, before, { ...move, before: home });
  return whileWaiting(input, before, move) ?? keptBy(before, move);
}

/** Until no old pod is left. Where the annotation is lost, the service's own strategy would stop what serves. */
function moveOf({ move, hasMoveStrategy, pods, nowMs }: NodeChoiceInput): NodeMove | undefined {
  if (!pods.hasOld) return undefined;
  const isLost = move === undefined && hasMoveStrategy && pods.isServing;
  return isLost ? { since: isoSeconds(nowMs) } : move;
}

function keptBy(choice: NodeChoice, move: NodeMove | undefined): SettledNodeChoice {
  return { choice, move };
}

function begin(
  { fresh, pods, nowMs }: NodeChoiceInput,
  before: NodeChoice,
  move: NodeMove | undefined,
): SettledNodeChoice {
  const kept = keptBy(before, move);
  if (findsNoNode(pods)) return { ...kept, givenUp: "NoNode" };
  if (move === undefined && pods.isRollingOut) return { ...kept, givenUp: "RollingOut" };
  return { choice: fresh, move: { since: isoSeconds(nowMs), before: move?.before ?? before } };
}

type Returnable = NodeMove & { readonly before: NodeChoice };

/** A move to this choice, or the return to it: each has its time. */
function goOn(
  { judged = [], pods, nowMs }: NodeChoiceInput,
  choice: NodeChoice,
  move: Returnable,
): SettledNodeChoice {
  const { since, before: home } = move;
  // The annotation may be edited, and clocks differ.
  const leftMs = Math.min(MOVE_MS, Date.parse(since) + MOVE_MS - nowMs);
  const onTheWay = { choice, move, recheckAfterMs: leftMs };
  if (isDeepEqual(home, choice)) return leftMs > 0 ? onTheWay : { choice };
  if (leftMs > 0 && !findsNoNode(pods)) return onTheWay;
  const now = isoSeconds(nowMs);
  const isOnLeft = judged.some(
    ({ name, hostname }) => choice.avoid.includes(hostname) && pods.on.includes(name),
  );
  // Otherwise none is left that could stay there.
  if (!isOnLeft) return { choice, move: { since: now } };
  const givenUp = findsNoNode(pods) ? "NoNode" : "NotReady";
  return { choice: home, move: { since: now, before: home }, givenUp };
}

function findsNoNode({ isWaiting, isRoomMade }: NodeChoiceInput["pods"]): boolean {
  return isWaiting && !isRoomMade;
}

/** Undefined: no other choice would help. */
function whileWaiting(
  { fresh, judged, pods, nowMs }: NodeChoiceInput,
  before: NodeChoice,
  move: NodeMove | undefined,
): SettledNodeChoice | undefined {
  if (!pods.isWaiting) return undefined;
  const isFreed = ({ hostname, fit }: JudgedNode) =>
    fit.at === "fits" && before.avoid.includes(hostname) && !fresh.avoid.includes(hostname);
  if (!(judged?.some(isFreed) ?? before.avoid.length > 0)) return undefined;
  const isAmid = move === undefined && pods.isRollingOut;
  return { choice: fresh, move: pods.isServing && !isAmid ? { since: isoSeconds(nowMs) } : undefined };
}

/** spec.nodeSelector and node affinity are the user's word. */
export function isChosenByUser({ nodeSelector, affinity }: InferenceServiceSpec): boolean {
  return nodeSelector !== undefined || affinity?.nodeAffinity !== undefined;
}

export type ObservedNodes =
  | { readonly at: "chosenByUser" }
  /** Without fitness. */
  | { readonly at: "notScored" }
  | { readonly at: "judged"; readonly judged: readonly JudgedNode[] };

const MAX_NAMED = 3;

/** Which nodes, with score and basis, and why the others are not preferred. */
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
  const words = [
    listed("prefers", scored),
    listed(
      "fits",
      plain.map(({ name }) => name),
      "; the catalog does not have the model, so they are not scored",
    ),
    listed("kept out", judged.flatMap(tooSmallText)),
    listed("left to the scheduler", judged.flatMap(unknownText)),
  ].filter((text) => text !== "");
  const message = words.join("; ");
  if (judged.length === 0)
    return {
      type,
      status: "Unknown",
      reason: "NoNodes",
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
  const more = names.length > MAX_NAMED ? ` and ${names.length - MAX_NAMED} more` : "";
  return `${verb}: ${names.slice(0, MAX_NAMED).join(", ")}${more}${after}`;
}
