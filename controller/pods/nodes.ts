/** placement.mode Auto: judges and scores the nodes for a pod of a service, which gives the nodes that it avoids and prefers. Pure. */
import type { ConditionUpdate } from "../../src/api/conditions.ts";
import type { NodeRead, PodAccelerator, ReplicaFit, ReplicaScorer } from "../../src/capacity/fitness.ts";
import {
  DEFAULT_SCORE_WEIGHTS,
  type MachineScore,
  type ScoredMachine,
  type ScoreWeights,
  scoreMachines,
  scoreRank,
} from "../../src/capacity/score.ts";
import { formatBytes } from "../../src/util/bytes.ts";

/** What is known about a node besides its size. */
export interface NodeFigures {
  /** Measured generation speed of its device class. */
  readonly measured?: number | undefined;
  readonly utilization?: number | undefined;
  readonly cost?: number | undefined;
}

export interface JudgedNode {
  readonly name: string;
  readonly hostname: string;
  readonly fit: ReplicaFit;
  readonly figures: NodeFigures;
}

/** Sorted by name, without nodes that lack the GPUs, which the scheduler excludes. */
export function judgeNodes(
  scorer: ReplicaScorer,
  pod: PodAccelerator,
  nodes: readonly NodeRead[],
  figuresOf: (node: string) => NodeFigures = () => ({}),
): readonly JudgedNode[] {
  return nodes
    .map((node) => ({ name: node.name, hostname: node.hostname, fit: scorer.fitOn({ node, pod }) }))
    .filter(({ fit }) => fit.at !== "noGpus")
    .map((node) => ({ ...node, figures: figuresOf(node.name) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Nodes for a pod, named by label kubernetes.io/hostname. */
export interface NodeChoice {
  /** Nodes that can never run the model, and nodes that pods leave. */
  readonly avoid: readonly string[];
  /** Weights from 1 to 100, the largest first. */
  readonly prefer: readonly { readonly weight: number; readonly nodes: readonly string[] }[];
}

/** Maximum number of nodes to avoid, to limit the size of a pod. */
const MAX_AVOIDED = 256;
const MAX_PREFERRED = 32;
/** Weights are multiples of this, so the scheduler ignores smaller differences between scores. */
const WEIGHT_STEP = 5;
/** The scheduler has other preferences, such as free resources. The power makes a clear difference of scores outweigh them. */
const CONTRAST = 4;

/**
 * Nodes are excluded by name, never listed, so that a new node of an autoscaler remains possible. `leaving` names nodes that pods
 * leave for better ones.
 */
export function nodeChoiceOf(
  judged: readonly JudgedNode[],
  leaving: ReadonlySet<string> = new Set(),
  weights: ScoreWeights = DEFAULT_SCORE_WEIGHTS,
): NodeChoice {
  const left = judged.filter(({ name }) => leaving.has(name));
  const others = judged.filter(({ name }) => !leaving.has(name));
  // Nodes to leave come first in case not all can be named: nothing else keeps pods off them.
  const unfit = [...left, ...others.filter(isUnfit)];
  const avoid = [...new Set(unfit.map(({ hostname }) => hostname))].slice(0, MAX_AVOIDED);
  const hostnames = new Map(others.map(({ name, hostname }) => [name, hostname]));
  const byWeight = new Map<number, string[]>();
  const scored = scoreNodes(others, weights);
  const best = scoreRank(scored[0]?.score ?? 0, weights);
  for (const { name, score } of scored.slice(0, MAX_PREFERRED)) {
    const share = best === 0 ? 1 : (scoreRank(score, weights) / best) ** CONTRAST;
    const weight = Math.max(1, Math.round((share * 100) / WEIGHT_STEP) * WEIGHT_STEP);
    byWeight.set(weight, [...(byWeight.get(weight) ?? []), hostnames.get(name) ?? name].sort());
  }
  return { avoid: avoid.sort(), prefer: [...byWeight].map(([weight, nodes]) => ({ weight, nodes })) };
}

/** The best first. Empty if neither speed nor cost of any node is known: load alone is the scheduler's business. */
export function scoreNodes(
  judged: readonly JudgedNode[],
  weights: ScoreWeights = DEFAULT_SCORE_WEIGHTS,
): readonly MachineScore[] {
  const machines = judged.flatMap(machineOf);
  const isKnown = ({ tokensPerSecond, cost }: ScoredMachine) =>
    tokensPerSecond !== undefined || cost !== undefined;
  return machines.some(isKnown) ? scoreMachines(machines, weights) : [];
}

/** A measured speed proves that the model runs on the class, although the memory of the node may be unknown. */
function machineOf({ name, fit, figures }: JudgedNode): ScoredMachine[] {
  const { measured, utilization, cost } = figures;
  if (fit.at !== "fits" && (fit.at !== "unknown" || measured === undefined)) return [];
  const estimated = fit.at === "fits" ? fit.scored?.tokensPerSecond : undefined;
  const tokensPerSecond = measured === undefined ? estimated : { value: measured, basis: "measured" };
  return [{ name, tokensPerSecond, utilization, cost }];
}

export type ObservedNodes =
  | { readonly at: "chosenByUser" }
  /** The controller runs without fitness. */
  | { readonly at: "notScored" }
  | {
      readonly at: "judged";
      readonly judged: readonly JudgedNode[];
      readonly weights?: ScoreWeights;
      /** True if the template has several required terms, with which the pods get no preferences. */
      readonly hasSeveralTerms?: boolean;
    };

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
  const { judged, weights } = seen;
  const scores = scoreNodes(judged, weights);
  const named = new Set(scores.map(({ name }) => name));
  const others = judged.filter(({ name }) => !named.has(name));
  const parts = [
    listed(
      seen.hasSeveralTerms === true ? "scores" : "prefers",
      scores.map(({ name, why }) => `${name} (${why})`),
    ),
    seen.hasSeveralTerms === true && scores.length > 0 ? NO_PREFERENCES : "",
    scores.some(({ missing }) => missing.length > 0)
      ? "an unknown speed or cost counts as half of the largest one, an unknown load as 50%"
      : "",
    listed(
      "fits",
      others.flatMap(({ name, fit }) => (fit.at === "fits" ? [name] : [])),
      "; no speed is measured, and the catalog does not have the model, so they are not scored",
    ),
    listed("kept out", others.flatMap(unfitText)),
    listed("left to the scheduler", others.flatMap(unknownText)),
  ].filter((text) => text !== "");
  const message = parts.join("; ");
  if (judged.length === 0)
    return {
      type,
      status: "Unknown",
      reason: "NoNodes",
      message: "no node has the resources that the pods request; the pods are pending until a node has them",
    };
  if (judged.every(isUnfit))
    return { type, status: "False", reason: "NoNodeFits", message: `no node runs the model; ${message}` };
  const isKnown = scores.length > 0 || judged.some(({ fit }) => fit.at !== "unknown");
  return isKnown
    ? { type, status: "True", reason: "NodesScored", message }
    : { type, status: "Unknown", reason: "NodesUnknown", message };
}

const NO_PREFERENCES =
  "pods get no preferences, because they have several required node selector terms (hardware.gpu.memory, flavors), which Karpenter drops before preferences";

function isUnfit({ fit }: JudgedNode): boolean {
  return fit.at === "tooSmall" || fit.at === "unsupported";
}

function unfitText({ name, fit }: JudgedNode): string[] {
  if (fit.at === "unsupported") return [`${name} (${fit.why})`];
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
