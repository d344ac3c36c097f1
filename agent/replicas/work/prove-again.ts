/** One real request to an engine whose log shows errors: it alone tells whether the engine still serves anybody. */
import { API_VERSION } from "../../../src/api/group.ts";
import { INFERENCE_REPLICAS } from "../../../src/api/kinds.ts";
import { judge, weigh } from "../../../src/replica/evidence/suspicion.ts";
import type { RunnerContext } from "../context.ts";
import { countProbe } from "../metrics/counts.ts";
import { type ReplicaState, refOf } from "../state.ts";
import { isSameRun, probeOf } from "./question.ts";

/** Asks once. */
export function proveAgain(state: ReplicaState, context: RunnerContext, timeoutMs: number): void {
  const probe = probeOf(state, context);
  if (probe === undefined) return;
  state.jobs.run("prove", async (signal) => {
    const { clock } = context.ports;
    const at = clock.monotonicMs();
    const before = state.run.work;
    const answer = await probe.driver.probeRequest(probe.target, { timeoutMs, signal });
    if (signal.aborted || !isSameRun(state, probe)) return true;
    const now = clock.monotonicMs();
    countProbe(state.counts, "request", now - at, answer !== "ok");
    const verdict = weigh(answer, { at, isLate: now - at >= timeoutMs, before, after: state.run.work });
    state.run.suspicion = judge(state.run.suspicion, verdict, now);
    state.log.warn({ answer, verdict }, "a real request after errors in the engine's log");
    if (answer === "ok") tellOnce(state, context);
    return true;
  });
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
