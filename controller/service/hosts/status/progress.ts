/** Describes the progress of a rollout. Pure. */
import { getCondition } from "../../../../src/api/conditions.ts";
import type { HostsStatusFacts } from "./facts.ts";

export interface RevisionProgress {
  readonly at: "none" | "complete" | "rolling" | "stopped";
  /** The revision that serves; the one before, while another is rolled out. */
  readonly current?: string;
  readonly message: string;
}

export function revisionProgressOf(facts: HostsStatusFacts): RevisionProgress {
  const { draft, want } = facts;
  const { revision } = draft.input;
  const before = draft.observed.service.status?.currentRevision;
  if (revision === undefined || want === 0) return { at: "none", current: before, message: "" };
  const { updatedReady, old, oldReady, stoppedBy } = draft.rollout.state;
  const count = updatedText(facts);
  if (updatedReady === want && old === 0 && stoppedBy === undefined)
    return { at: "complete", current: revision, message: count };
  const current = servesWhereItIs(facts) ? revision : (before ?? servingRevision(facts));
  if (before === revision && old === 0 && !wasRolling(facts)) return { at: "none", current, message: count };
  const counts = oldReady === 0 ? count : `${count}, ${oldReady} old serving`;
  const failing = stoppedBy ?? failingOne(facts, revision);
  if (failing !== undefined) {
    const isChange = stoppedBy !== undefined || (before !== undefined && before !== revision);
    const remedy = isChange
      ? "correct the spec, or roll back with: metalbridge rollout undo"
      : "correct the spec";
    return { at: "stopped", current, message: `${counts}; ${failing}; ${remedy}` };
  }
  return { at: "rolling", current, message: [counts, ...waitsFor(facts, revision)].join("; ") };
}

/**
 * The last slots of a rollout still belong to it, although everything that is ready is of the new revision.
 */
function wasRolling({ draft }: HostsStatusFacts): boolean {
  const { conditions } = draft.observed.service.status ?? {};
  return getCondition(conditions, "Progressing")?.reason === "NewRevisionRollingOut";
}

function updatedText({ draft, want }: HostsStatusFacts): string {
  const { updated, updatedReady } = draft.rollout.state;
  return `${updated} of ${want} updated${updatedReady < updated ? `, ${updatedReady} ready` : ""}`;
}

/** Slots that find no host say nothing about the revision. */
function servesWhereItIs({ draft }: HostsStatusFacts): boolean {
  const { updated, updatedReady, old, stoppedBy } = draft.rollout.state;
  return old === 0 && updated > 0 && updatedReady === updated && stoppedBy === undefined;
}

/** If the first revision fails, there is nothing to roll back to and nothing more to wait for. */
function failingOne({ draft, live }: HostsStatusFacts, revision: string): string | undefined {
  return live
    .filter(({ spec }) => spec.template.revision === revision)
    .map(({ metadata }) => draft.findings.failing.get(metadata.name))
    .find((why) => why !== undefined);
}

function servingRevision({ ready, draft }: HostsStatusFacts): string | undefined {
  return ready.find(({ spec }) => spec.template.revision !== draft.input.revision)?.spec.template.revision;
}

function waitsFor({ draft, unplaced, ending, live, ready }: HostsStatusFacts, revision: string): string[] {
  const [gone] = ending;
  if (gone !== undefined) {
    return [`${gone.metadata.name} on ${gone.spec.template.hostName} drains to make room`];
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
