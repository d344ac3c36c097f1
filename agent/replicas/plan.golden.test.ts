/** Golden plans: golden/*.input.yaml in, *.plan.yaml out. `UPDATE_GOLDEN=1` rewrites them. */

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse, stringify } from "yaml";
import { REPLICA_PHASES } from "../../src/api/inference-replica.ts";
import type { Desired, ObservedReplica } from "./evidence/observed.ts";
import { planReplica, type ReplicaStep } from "./plan.ts";
import type { ProgressReason } from "./state/step.ts";
import { nothingKnown, SERVE } from "./testing/facts.ts";

interface Case {
  readonly case: string;
  readonly wanted?: Partial<Desired> | "absent" | "unknown";
  readonly observed?: Partial<ObservedReplica>;
}

interface Input {
  readonly now: number;
  readonly observed: Partial<ObservedReplica>;
  readonly cases: readonly Case[];
}

const folder = join(import.meta.dirname, "golden");
const inputs = readdirSync(folder).filter((name) => name.endsWith(".input.yaml"));

describe.each(inputs)("%s", (name) => {
  const input = parse(readFileSync(join(folder, name), "utf8"), { merge: true }) as Input;
  const path = join(folder, name.replace(".input.yaml", ".plan.yaml"));
  const plans = input.cases.map((one) => ({ case: one.case, plan: planOf(input, one) }));

  it("matches the recorded plans", () => {
    const text = stringify(plans, { lineWidth: 0 });
    if (process.env.UPDATE_GOLDEN === "1" || !existsSync(path)) writeFileSync(path, text);
    expect(text).toBe(readFileSync(path, "utf8"));
  });
});

/** Complete by their types: a new step or reason has to be added here, and then shown by a case. */
const STEPS: Record<ReplicaStep["do"], true> = {
  detectRuntime: true,
  fetch: true,
  cancelFetch: true,
  reserve: true,
  start: true,
  adjustClaim: true,
  probeHealth: true,
  restoreFiles: true,
  rotateSecrets: true,
  checkRoute: true,
  scanLog: true,
  measureSpeed: true,
  probeRequest: true,
  proveAgain: true,
  measureFootprint: true,
  setEndpoint: true,
  markReady: true,
  withdraw: true,
  beginStop: true,
  noteWithdrawn: true,
  cancelStop: true,
  pollQuiet: true,
  stopBy: true,
  killNow: true,
  recordExit: true,
  forgetRun: true,
  forgetReplica: true,
  removeFinalizer: true,
};
const REASONS: Record<ProgressReason, true> = {
  AwaitingFirstList: true,
  DetectingRuntime: true,
  ResolvingModel: true,
  DownloadingModel: true,
  AdmittingMemory: true,
  EngineStarting: true,
  LoadingModel: true,
  ProvingRequest: true,
  PublishingEndpoint: true,
  Serving: true,
  WithdrawingEndpoint: true,
  AwaitingPropagation: true,
  AwaitingQuiet: true,
  EndingProcess: true,
  EndingLeftovers: true,
  RemovingFinalizer: true,
  Drained: true,
  Deleted: true,
  NotWanted: true,
  AgentStopped: true,
};

it("the recorded plans cover each phase, step and reason", () => {
  const plans = inputs.flatMap((name) => {
    const input = parse(readFileSync(join(folder, name), "utf8"), { merge: true }) as Input;
    return input.cases.map((one) => planOf(input, one));
  });
  const steps = plans.flatMap((plan) => plan.steps.map((step) => step.do));
  expect(new Set(plans.map(({ phase }) => phase))).toEqual(new Set(REPLICA_PHASES));
  expect(new Set(steps)).toEqual(new Set(Object.keys(STEPS)));
  const reasons = new Set<string>(plans.map(({ reason }) => reason));
  expect(Object.keys(REASONS).filter((reason) => !reasons.has(reason))).toEqual([]);
});

function planOf(input: Input, one: Case): ReturnType<typeof planReplica> {
  const wanted = typeof one.wanted === "string" ? one.wanted : { ...SERVE, ...one.wanted };
  const { record, ...observed } = { ...nothingKnown(), ...input.observed, ...one.observed };
  // YAML says "none" as null.
  return planReplica(wanted, { ...observed, ...(record ? { record } : {}) }, input.now);
}
