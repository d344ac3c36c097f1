import { describe, expect, test } from "vitest";
import type { MoveCandidate } from "../../src/capacity/fitness.ts";
import { testGoldens } from "../../test/golden/golden.ts";
import { chooseMove, NO_OBSERVATIONS, noteMove, observeFitness } from "./plan.ts";

interface Input {
  readonly settings?: object;
  /** Time in seconds at which replicas arrived on their machines. Default: 0. */
  readonly since?: Readonly<Record<string, number>>;
  /** Time in seconds, then `replica@machine: score` and optional fields. */
  readonly passes: readonly {
    readonly at: number;
    /** null: the score is unknown. */
    readonly scores: Readonly<Record<string, number | null>>;
    readonly others?: Readonly<Record<string, number>>;
    /** Machines without free capacity. */
    readonly full?: Readonly<Record<string, number>>;
  }[];
}

const DEFAULTS = { threshold: 0.3, observations: 3, cooldownMs: 600_000, minimumStayMs: 600_000 };

/** Replicas are named service/ordinal; the machines of `others` are free. */
function run({ settings: given, since = {}, passes }: Input) {
  const settings = { ...DEFAULTS, ...given };
  let state = NO_OBSERVATIONS;
  return passes.map(({ at, scores, others = {}, full = {} }) => {
    const observations = Object.entries(scores).map(([key, score]) => {
      const [replica = "", on = ""] = key.split("@");
      const sinceMs = (since[replica] ?? 0) * 1000;
      return { replica, on, score: score ?? undefined, service: replica.split("/")[0] ?? "", sinceMs };
    });
    const candidatesIn = (machines: Readonly<Record<string, number>>, isOpen: boolean): MoveCandidate[] =>
      Object.entries(machines).map(([name, score]) => ({ name, score, isOpen }));
    const candidates = [...candidatesIn(others, true), ...candidatesIn(full, false)];
    const seen = observeFitness(state, observations, settings, at * 1000);
    state = seen.state;
    const moves = seen.due.map((due) => {
      const move = chooseMove(due, candidates, settings);
      if (move !== undefined) state = noteMove(state, due.service, at * 1000);
      return move === undefined
        ? `${due.replica} stays: no better machine`
        : `${due.replica} to ${move.to.name}: ${move.because}${move.notTo.length === 0 ? "" : `; not to ${move.notTo.join(", ")}`}`;
    });
    return { at, decided: moves.length === 0 ? "nothing" : moves };
  });
}

describe("golden", () => testGoldens(`${import.meta.dirname}/golden`, run));

test("a move is forgotten once its cool-down has elapsed", () => {
  const moved = noteMove(NO_OBSERVATIONS, "chat", 1_000);
  const kept = (nowMs: number) => [...observeFitness(moved, [], DEFAULTS, nowMs).state.movedAtMs];
  expect(kept(600_999)).toEqual([["chat", 1_000]]);
  expect(kept(601_000)).toEqual([]);
});

test("a replica is tracked from its first score, and stays tracked while its score is unknown", () => {
  const one = { replica: "chat/0", on: "m", service: "chat", sinceMs: 0 };
  const tracked = (before: typeof NO_OBSERVATIONS, score: number | undefined) =>
    observeFitness(before, [{ ...one, score }], DEFAULTS, 0).state;
  const unknown = tracked(NO_OBSERVATIONS, undefined);
  expect([...unknown.tracked]).toEqual([]);
  const known = tracked(unknown, 80);
  expect([...known.tracked]).toEqual([["chat/0", { best: 80, low: 0 }]]);
  expect([...tracked(known, undefined).tracked]).toEqual([["chat/0", { best: 80, low: 0 }]]);
});
