/** One real request to an engine whose log shows errors: it alone tells whether the engine still serves anybody. */
import { API_VERSION } from "../../../src/api/group.ts";
import { INFERENCE_REPLICAS } from "../../../src/api/kinds.ts";
import { judge } from "../../../src/replica/evidence/suspicion.ts";
import { hasMovedOn, type Work } from "../../../src/replica/evidence/work.ts";
import type { RunnerContext } from "../context.ts";
import { type ReplicaState, refOf } from "../state.ts";
import { isSameRun, probeOf } from "./question.ts";

/** An answer other than to a wrong request: what the engine itself has to say. */
const FAILED_ANSWER = /^HTTP (?!4\d\d)/;

/** Asks once. A request that may only have waited behind others, or that was refused, decides nothing. */
export function proveAgain(state: ReplicaState, context: RunnerContext, timeoutMs: number): void {
  const probe = probeOf(state, context);
  if (probe === undefined) return;
  state.jobs.run("prove", async () => {
    const { clock } = context.ports;
    const startedAt = clock.monotonicMs();
    const before = state.run.work;
    const answer = await probe.driver.probeRequest(probe.target, { timeoutMs });
    if (!isSameRun(state, probe)) return true;
    const now = clock.monotonicMs();
    const isLate = now - startedAt >= timeoutMs;
    const isClear =
      answer === "ok" ||
      (isLate ? stoodStill(before, state.run.work, startedAt) : FAILED_ANSWER.test(answer.failed));
    state.run.suspicion = judge(state.run.suspicion, isClear ? answer : "unclear", now);
    context.log.warn({ uid: state.uid, answer, isClear }, "a real request after errors in the engine's log");
    if (answer === "ok") tellOnce(state, context);
    return true;
  });
}

/** A reading that is missing is no evidence. */
function stoodStill(before: Work, { last, lastAt }: Work, startedAt: number): boolean {
  if (before.last === undefined || last === undefined || lastAt === undefined) return false;
  return lastAt > startedAt && !hasMovedOn(before.last, last);
}

/** Once per run: the engine is kept, and whoever looks later should know what its log said. */
function tellOnce(state: ReplicaState, context: RunnerContext): void {
  const { suspicion } = state.run;
  const ref = refOf(state);
  if (state.run.toldErrors === true || suspicion.at !== "cleared" || ref === undefined) return;
  state.run.toldErrors = true;
  context.ports.recorder(
    { apiVersion: API_VERSION, kind: INFERENCE_REPLICAS.kind, ...ref, uid: state.uid },
    {
      type: "Warning",
      reason: "EngineErrorsLogged",
      action: "Prove",
      note: `the engine's log says "${suspicion.line}"; a real request succeeded, so it serves on`,
    },
  );
}
