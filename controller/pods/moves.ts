/** Moves of serving pods off nodes that live eviction has found too slow or too small: when one starts, continues and is undone. Pure. */

import { z } from "zod";
import { ANNOTATION_NODE_MOVE } from "../../src/api/group.ts";
import type { Deployment } from "../../src/kube/workload-objects.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import { parseJson } from "../../src/util/parse-json.ts";
import { MOVE_MS } from "../frame/move-tracker.ts";

/**
 * A move in progress. The pods are renewed, which changes nothing in their template but the renewal time, and the scheduling gate
 * keeps the new ones off these nodes.
 */
export interface NodeMove {
  readonly since: string;
  /** Names of nodes; empty while the move is undone, and if its reason is lost. */
  readonly avoid: readonly string[];
  /** The renewal time to return to if the move fails. Absent: there is nothing to return to. */
  readonly before?: { readonly renewedAt?: string | undefined } | undefined;
}

const moveSchema = z.object({
  since: z.iso.datetime(),
  avoid: z.array(z.string()).default([]),
  before: z.object({ renewedAt: z.string().optional() }).optional(),
});

/** Undefined if the Deployment has no move, or if its annotation was edited. */
export function nodeMoveOf(current: Deployment | undefined): NodeMove | undefined {
  return moveSchema.safeParse(parseJson(current?.metadata.annotations?.[ANNOTATION_NODE_MOVE] ?? "")).data;
}

export interface MoveInput {
  /** Renewal time in the Deployment's template. */
  readonly renewedAt: string | undefined;
  /** True if the desired template is the Deployment's, apart from the renewal time. */
  readonly isTemplateSame: boolean;
  /** What live eviction requests; empty once it is done or given up. */
  readonly departures: readonly {
    readonly machine: string;
    readonly notTo: readonly string[];
    readonly sinceMs: number;
  }[];
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

export interface SettledMove {
  readonly renewedAt: string | undefined;
  /** During a move, no pod stops before its replacement is ready, even with GPUs. */
  readonly move?: NodeMove | undefined;
  /** The reason why a move failed or did not start. */
  readonly blocked?: "NoNode" | "NotReady" | "RollingOut";
  readonly recheckAfterMs?: number;
}

export function settleMove(input: MoveInput): SettledMove {
  const { renewedAt, isTemplateSame, departures } = input;
  // The latest departure, rather than the current time, so that all passes agree until the cache shows the change.
  const startAt =
    departures.length === 0 ? undefined : isoSeconds(Math.max(...departures.map(({ sinceMs }) => sinceMs)));
  // New pods avoid the nodes in any case.
  if (!isTemplateSame) return { renewedAt: startAt ?? renewedAt };
  const move = moveOf(input);
  if (startAt !== undefined && startAt !== renewedAt) return startMove(input, move, startAt);
  const { before } = move ?? {};
  return move === undefined || before === undefined
    ? { renewedAt, move }
    : continueMove(input, { ...move, before });
}

/** A move lasts until no old pod is left. If its annotation is lost, it must continue, or the service's strategy would stop ready pods. */
function moveOf({ move, hasMoveStrategy, pods, nowMs }: MoveInput): NodeMove | undefined {
  if (!pods.hasOld) return undefined;
  const isLost = move === undefined && hasMoveStrategy && pods.isServing;
  return isLost ? { since: isoSeconds(nowMs), avoid: [] } : move;
}

function startMove(
  { renewedAt, departures, pods }: MoveInput,
  move: NodeMove | undefined,
  startAt: string,
): SettledMove {
  if (findsNoNode(pods)) return { renewedAt, move, blocked: "NoNode" };
  if (move === undefined && pods.isRollingOut) return { renewedAt, move, blocked: "RollingOut" };
  const avoid = departures.flatMap(({ machine, notTo }) => [machine, ...notTo]);
  return { renewedAt: startAt, move: { since: startAt, avoid, before: move?.before ?? { renewedAt } } };
}

/** Continues a move, or the return from it. Each has the full timeout. */
function continueMove(
  { renewedAt, pods, nowMs }: MoveInput,
  move: NodeMove & { readonly before: { readonly renewedAt?: string | undefined } },
): SettledMove {
  const { since, avoid, before } = move;
  // The annotation may be edited, and clocks differ.
  const leftMs = Math.min(MOVE_MS, Date.parse(since) + MOVE_MS - nowMs);
  const inProgress = { renewedAt, move, recheckAfterMs: leftMs };
  if (before.renewedAt === renewedAt) return leftMs > 0 ? inProgress : { renewedAt };
  if (leftMs > 0 && !findsNoNode(pods)) return inProgress;
  const now = { since: isoSeconds(nowMs), avoid: [] };
  // Without pods on the nodes to leave, there is nothing to return to.
  if (!pods.on.some((node) => avoid.includes(node))) return { renewedAt, move: now };
  const blocked = findsNoNode(pods) ? "NoNode" : "NotReady";
  return { renewedAt: before.renewedAt, move: { ...now, before }, blocked };
}

function findsNoNode({ isWaiting, isRoomMade }: MoveInput["pods"]): boolean {
  return isWaiting && !isRoomMade;
}
