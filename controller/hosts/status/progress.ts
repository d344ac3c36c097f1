/** Describes the progress of a rollout. Pure. */
import { getCondition } from "../../../src/api/conditions.ts";
import type { HostsStatusFacts } from "./facts.ts";

export interface RevisionProgress {
  readonly at: "none" | "complete" | "rolling" | "stopped";
  /** The revision that serves, which is the previous one during a rollout. */
  readonly current?: string;
  readonly message: string;
}

export function revisionProgressOf(facts: HostsStatusFacts): RevisionProgress {
  const { draft, desired } = facts;
  const { revision } = draft.input;
  const before = draft.observed.service.status?.currentRevision;
  if (revision === undefined || desired === 0) return { at: "none", current: before, message: "" };
  const { updatedReady, old, oldReady, stoppedBy } = draft.rollout.state;
  const count = updatedText(facts);
  if (updatedReady === desired && old === 0 && stoppedBy === undefined)
    return { at: "complete", current: revision, message: count };
  const current = allUpdatedServe(facts) ? revision : (before ?? servingRevision(facts));
  if (before === revision && old === 0 && !wasRolling(facts)) return { at: "none", current, message: count };
  const counts = oldReady === 0 ? count : `${count}, ${oldReady} old serving`;
  const failing = stoppedBy ?? failureOfRevision(facts, revision);
  if (failing !== undefined) {
    const isChange = stoppedBy !== undefined || (before !== undefined && before !== revision);
    const remedy = isChange
      ? "correct the spec, or roll back with: metalbridge rollout undo"
      : "correct the spec";
    return { at: "stopped", current, message: `${counts}; ${failing}; ${remedy}` };
  }
  return { at: "rolling", current, message: [counts, ...waitsFor(facts, revision)].join("; ") };
}

/** True for the last slots of a rollout, when all ready replicas already are of the new revision. */
function wasRolling({ draft }: HostsStatusFacts): boolean {
  const { conditions } = draft.observed.service.status ?? {};
  return getCondition(conditions, "Progressing")?.reason === "NewRevisionRollingOut";
}

function updatedText({ draft, desired }: HostsStatusFacts): string {
  const { updated, updatedReady } = draft.rollout.state;
  return `${updated} of ${desired} updated${updatedReady < updated ? `, ${updatedReady} ready` : ""}`;
}

/** Ignores slots that find no host, because the revision is not the reason. */
function allUpdatedServe({ draft }: HostsStatusFacts): boolean {
  const { updated, updatedReady, old, stoppedBy } = draft.rollout.state;
  return old === 0 && updated > 0 && updatedReady === updated && stoppedBy === undefined;
}

/** The reason why a replica of the revision fails, for a first revision, which has nothing to roll back to. */
function failureOfRevision({ draft, live }: HostsStatusFacts, revision: string): string | undefined {
  return live
    .filter(({ spec }) => spec.template.revision === revision)
    .map(({ metadata }) => draft.findings.failing.get(metadata.name))
    .find((why) => why !== undefined);
}

function servingRevision({ ready, draft }: HostsStatusFacts): string | undefined {
  return ready.find(({ spec }) => spec.template.revision !== draft.input.revision)?.spec.template.revision;
}

function waitsFor({ draft, unplaced, ending, live, ready }: HostsStatusFacts, revision: string): string[] {
  const [draining] = ending;
  if (draining !== undefined) {
    return [`${draining.metadata.name} on ${draining.spec.template.hostName} drains to make room`];
  }
  const [first] = unplaced;
  if (first !== undefined) {
    const hint =
      draft.input.maxUnavailable === 0
        ? "; with rollout.maxUnavailable 0 the old replica serves until then"
        : "";
    return [`no host for slot ${first.ordinal}: ${first.message}${hint}`];
  }
  const next = live.find((one) => one.spec.template.revision === revision && !ready.includes(one));
  if (next === undefined) return [];
  return [`${next.metadata.name} on ${next.spec.template.hostName} is ${next.status?.phase ?? "Pending"}`];
}
