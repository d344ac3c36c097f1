import type { IdleSettings, IdleStatus } from "../../../src/api/inference-service/idle.ts";
import { testGoldens } from "../../../test/golden/golden.ts";
import { type IdleInput, type IdleRecord, idleStatusOf, planIdle } from "./plan.ts";

/** Facts at a time; those that are absent stay as in the step before. */
interface Step {
  /** Seconds since the start. */
  readonly at: number;
  readonly demand?: string;
  readonly use?: IdleInput["use"];
  readonly serving?: boolean;
  readonly starting?: boolean;
  readonly hosts?: readonly string[];
  /** For this step only. */
  readonly displacedBy?: string;
  /** Set if no requests wait for that service. */
  readonly takesTurns?: false;
  /** Seconds since the start at which another service began to wait. */
  readonly othersQueued?: number;
  /** Another leader begins, which knows the last status only. */
  readonly restart?: boolean;
}

interface Scenario {
  readonly idle: Partial<IdleSettings> & Pick<IdleSettings, "afterMinutes">;
  readonly start: string;
  readonly status?: IdleStatus;
  readonly steps: readonly Step[];
}

const OFFERS = { all: "; others may have its memory", turns: "; its turn has finished" };

/** One line per step, and the status after the last one. */
function run({ idle, start, status, steps }: Scenario): unknown {
  let before: IdleRecord | undefined;
  let written = status;
  let facts: Step = { at: 0 };
  let startedAt = 0;
  const lines = steps.map((step) => {
    facts = { ...facts, ...step };
    if (step.restart === true) [before, startedAt] = [undefined, step.at];
    const plan = planIdle({
      settings: { minimumResidencySeconds: 120, ...idle },
      before,
      written,
      mark: facts.demand,
      use: facts.use ?? "quiet",
      isServing: facts.serving ?? false,
      isStarting: facts.starting ?? false,
      hosts: facts.hosts ?? [],
      displacedBy:
        step.displacedBy === undefined
          ? undefined
          : { service: step.displacedBy, takesTurns: step.takesTurns ?? true },
      othersQueuedSinceMs:
        facts.othersQueued === undefined ? undefined : Date.parse(start) + facts.othersQueued * 1_000,
      now: { wallMs: Date.parse(start) + step.at * 1_000, monotonicMs: (step.at - startedAt) * 1_000 },
    });
    before = plan.record;
    written = idleStatusOf(plan.record);
    const offer = plan.offer === undefined ? "" : OFFERS[plan.offer.to];
    const recheck = plan.recheckAfterMs === undefined ? "" : `; again in ${plan.recheckAfterMs / 1_000} s`;
    return `${step.at} s: ${plan.record.state} (${plan.code}): ${plan.message}${offer}${recheck}`;
  });
  return { lines, status: JSON.parse(JSON.stringify(written)) };
}

testGoldens(new URL("golden/", import.meta.url).pathname, run);
