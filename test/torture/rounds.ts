/** One round: its faults at their times, each healed at its time, then quiet until everything has come right. */
import { setTimeout as pause } from "node:timers/promises";
import { until } from "../bed/until.ts";
import type { FaultContext, Injected } from "./faults/fault.ts";
import { FAULTS } from "./faults/registry.ts";
import { allowedBackoffMs } from "./invariants/backoff.ts";
import { CONVERGES_WITHIN_MS } from "./invariants/convergence.ts";
import { whyNotConverged } from "./observe/convergence.ts";
import { lockOf, type PlannedFault, type Round } from "./plan/plan-faults.ts";

const LOOK_MS = 250;
/** The farm must stay well for this long: not well by chance between two changes. */
const STEADY_MS = 2_000;

export async function runRound(context: FaultContext, round: Round): Promise<void> {
  const { recorder } = context;
  recorder.note({ type: "round", index: round.index, change: "begins", reasons: [] });
  const began = recorder.now();
  const locks = new Map<string, Promise<void>>();
  await Promise.all(
    round.faults.map((fault) => {
      const lock = lockOf(fault);
      // What takes longer than planned, as stopping an API server may, must not meet the next of its kind.
      const before = locks.get(lock) ?? Promise.resolve();
      const run = before.then(() => runFault(context, fault, began));
      locks.set(lock, run);
      return run;
    }),
  );
  recorder.note({ type: "round", index: round.index, change: "healed", reasons: [] });
  await untilConverged(context, round.index);
  await rollOutInPeace(context, round.index);
}

/** Enough that a drain which is too quick by half a second loses some. */
const PEACE_PACE = 4;
const SEEN_WITHIN_MS = 40_000;

/** Without a fault anywhere a rollout has no excuse for a lost request. */
async function rollOutInPeace(context: FaultContext, index: number): Promise<void> {
  const { bed, recorder, cluster, load } = context;
  const sizeOf = (name: string) => cluster.services.get(`default/${name}`)?.spec.contextSize;
  load.hurry(PEACE_PACE);
  // The others are deleted.
  for (const target of bed.services.filter((name) => name !== "brief")) {
    const value = sizeOf(target) === 1024 ? 768 : 1024;
    await until(() => bed.objects.patchService(target, "/spec/contextSize", value));
    const detail = `in peace: contextSize ${value}`;
    recorder.note({ type: "fault", id: -index, kind: "new-revision", target, phase: "injected", detail });
    const deadline = recorder.now() + SEEN_WITHIN_MS;
    // What our own watch has not seen yet looks as if it had come right.
    while (sizeOf(target) !== value && recorder.now() < deadline) await pause(LOOK_MS);
  }
  recorder.note({ type: "round", index, change: "healed", reasons: [] });
  await untilConverged(context, index);
  load.hurry(1);
}

async function runFault(context: FaultContext, planned: PlannedFault, began: number): Promise<void> {
  const { recorder } = context;
  const { id, kind, target } = planned;
  await pause(Math.max(0, began + planned.atMs - recorder.now()));
  const subject = { type: "fault", id, kind, target } as const;
  const begun = recorder.now();
  const injected: Injected = await FAULTS[kind](context, planned);
  if (injected.at === "skipped") return recorder.note({ ...subject, phase: "skipped", detail: injected.why });
  recorder.note({ ...subject, phase: "injected", detail: injected.detail }, begun);
  if (injected.heal === undefined) return;
  await pause(Math.max(0, planned.forMs - (recorder.now() - begun)));
  await injected.heal();
  recorder.note({ ...subject, phase: "healed", detail: "" });
}

/** Waits past the deadline too, so that the report can say whether it was late or never. */
export async function untilConverged(context: FaultContext, index: number): Promise<void> {
  const { recorder, cluster, engines, bed } = context;
  const allowedMs = allowedBackoffMs(recorder.recording());
  const deadline = recorder.now() + CONVERGES_WITHIN_MS + allowedMs + GIVE_UP_MS;
  let wellSince: number | undefined;
  for (;;) {
    const reasons = whyNotConverged({
      hosts: cluster.hosts.list(),
      services: cluster.services.list(),
      replicas: cluster.replicas.list(),
      slices: cluster.slices.list(),
      engines: engines.engines(),
      pods: cluster.pods.list(),
      nodes: cluster.nodes.list(),
      nodeCount: bed.nodes.size,
      addresses: new Map([...bed.hosts].map(([name, host]) => [name, host.address()])),
    });
    const now = recorder.now();
    wellSince = reasons.length === 0 ? (wellSince ?? now) : undefined;
    const round = { type: "round", index, allowedMs } as const;
    if (wellSince !== undefined && now - wellSince >= STEADY_MS) {
      return recorder.note({ ...round, change: "converged", reasons: [] }, wellSince);
    }
    if (now > deadline) return recorder.note({ ...round, change: "notConverged", reasons });
    await pause(LOOK_MS);
  }
}

const GIVE_UP_MS = 30_000;
