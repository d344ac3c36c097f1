import { expect, test } from "vitest";
import { DEFAULT_SCORE_WEIGHTS, type ScoreInputs, scoreOf, scoreRank } from "../score.ts";
import { hostSpeed, utilizationOf } from "./machine.ts";
import { rateHost } from "./scores.ts";
import type { Demand, HostFacts } from "./types.ts";

interface Candidate {
  /** In tokens per second; the fastest machine of the cluster has 100. */
  readonly speed?: number;
  readonly utilization?: number;
  readonly cost?: number;
  readonly hasWeights?: boolean;
  readonly siblings?: number;
  /** Free share of the memory. */
  readonly free?: number;
}

const demand = {
  memory: { known: true, bytes: 0 },
  choice: { hosts: [], spread: "Preferred" },
} as unknown as Demand;
const host = { budget: { known: true, bytes: 100, basis: "test" } } as unknown as HostFacts;

function total({
  speed,
  utilization = 0,
  cost = 0,
  hasWeights = true,
  siblings = 0,
  free = 0.5,
}: Candidate): number {
  const figures: ScoreInputs = {
    tokensPerSecond: speed === undefined ? undefined : { value: speed, basis: "measured" },
    utilization,
    cost,
  };
  const score = scoreOf(figures, { tokensPerSecond: 100, utilization: 1, cost: 10 }, DEFAULT_SCORE_WEIGHTS);
  return rateHost(demand, host, {
    claimedBytes: 100 * (1 - free),
    siblings,
    hasWeights,
    rank: scoreRank(score),
  });
}

test.each<[string, Candidate, Candidate]>([
  ["a faster host wins over one with all its memory free", { speed: 80, free: 0 }, { speed: 74, free: 1 }],
  [
    "an idle host wins over one with all its memory free",
    { speed: 80, free: 0 },
    { speed: 80, utilization: 0.3, free: 1 },
  ],
  [
    "a cheaper host wins over one with all its memory free",
    { speed: 80, free: 0 },
    { speed: 80, cost: 5, free: 1 },
  ],
  ["of equal hosts the one with more free memory wins", { speed: 80, free: 0.6 }, { speed: 80, free: 0.5 }],
  ["twice the speed is worth a download", { speed: 100, hasWeights: false, free: 0 }, { speed: 50, free: 1 }],
  [
    "half again the speed is not worth a download",
    { speed: 66, free: 0 },
    { speed: 100, hasWeights: false, free: 1 },
  ],
  [
    "nothing outweighs a sibling",
    { speed: 0, utilization: 1, cost: 10, hasWeights: false, free: 0 },
    { speed: 100, siblings: 1, free: 1 },
  ],
  ["a host of unknown speed is between a fast and a slow one", { speed: 60 }, {}],
  ["a slow host comes after one of unknown speed", {}, { speed: 40 }],
])("%s", (_, winner, loser) => {
  expect(total(winner)).toBeGreaterThan(total(loser));
});

test.each<[string | undefined, number | undefined, { value: number; basis: string } | undefined]>([
  ["apple-m4-10", 99, { value: 30, basis: "measured" }],
  ["apple-m1-8", 99, { value: 99, basis: "live" }],
  [undefined, 99, { value: 99, basis: "live" }],
  ["constructor", undefined, undefined],
])("class %s with a live rate of %s has the speed %j", (deviceClass, live, speed) => {
  expect(hostSpeed({ deviceClass }, { "apple-m4-10": 30 }, live)).toEqual(speed);
});

test.each<[number | undefined, ({ requests: number; slots: number } | undefined)[]]>([
  [0, []],
  [undefined, [undefined]],
  [0.3, [{ requests: 1, slots: 4 }]],
  [0.4, [{ requests: 1, slots: 4 }, { requests: 1, slots: 1 }, undefined]],
  [1, [{ requests: 90, slots: 4 }]],
])("utilization is %s with the loads %j", (expected, loads) => {
  expect(utilizationOf(loads.map((load) => ({ load })))).toBe(expected);
});
