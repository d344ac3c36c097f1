/** Failed benchmarks: which machine does not try a target again, and until when. Pure. */

import { defaultRemedy, type ErrorCode, errorCatalog } from "../../../src/api/errors.ts";
import { benchmarkPlanOf } from "../../../src/capacity/benchmark/subject.ts";
import type { Candidate, Target } from "./targets.ts";

export interface BenchmarkFailure {
  readonly code: ErrorCode;
  /** With the machine and the remedy. */
  readonly message: string;
  /** On the monotonic clock, as is the time of the retry. */
  readonly atMs: number;
  readonly retryAtMs: number;
  /** True for a state of the machine that passes, which is not a failure of the Model: no room, or runs that differ. */
  readonly isTemporary: boolean;
  /** Build, plan and whether the weights were there; other ones are retried immediately. */
  readonly of: string;
}

/** By machine and key, see `attemptOf`. */
export type Failures = ReadonlyMap<string, BenchmarkFailure>;

export interface Problem {
  /** A host may report any text. */
  readonly code: string;
  readonly message: string;
  readonly isTemporary?: boolean | undefined;
}

export type Machine = Pick<Candidate, "name" | "build" | "hasWeights" | "model">;

export interface Attempts {
  readonly failures: Failures;
  /** Failures that were not known before. */
  readonly found: readonly (BenchmarkFailure & { readonly target: Target })[];
  /** Returns the earlier failure if it is known: an agent reports a failure until its order is removed. */
  readonly fail: (target: Target, machine: Machine, problem: Problem) => BenchmarkFailure;
  readonly hasFailed: (target: Target, machine: Machine) => boolean;
  /** Failures on machines that could try the target, the newest first. */
  readonly failuresOf: (target: Target) => readonly BenchmarkFailure[];
}

/** A failed benchmark is retried on the machine after this time. */
const RETRY_MS = 86_400_000;
const SOON_RETRY_MS = 3_600_000;

export function createAttempts(before: Failures, nowMs: number): Attempts {
  const failures = new Map([...before].filter(([, { retryAtMs }]) => nowMs < retryAtMs));
  const failedKeys = new Set([...failures.keys()].map((attempt) => attempt.slice(attempt.indexOf(" ") + 1)));
  const found: (BenchmarkFailure & { readonly target: Target })[] = [];
  const failureOf = (target: Target, machine: Machine) => {
    const failure = failures.get(attemptOf(machine.name, target.key));
    return failure !== undefined && failure.of === conditionsOf(machine) ? failure : undefined;
  };
  return {
    failures,
    found,
    fail: (target, machine, { code, message, isTemporary = false }) => {
      const known = failureOf(target, machine);
      if (known !== undefined) return known;
      const failure = {
        code: code in errorCatalog ? (code as ErrorCode) : "BenchmarkFailed",
        message: `${machine.name}: ${message}`,
        atMs: nowMs,
        retryAtMs: nowMs + (isTemporary ? SOON_RETRY_MS : RETRY_MS),
        isTemporary,
        of: conditionsOf(machine),
      };
      failures.set(attemptOf(machine.name, target.key), failure);
      failedKeys.add(target.key);
      found.push({ ...failure, target });
      return failure;
    },
    hasFailed: (target, machine) => failureOf(target, machine) !== undefined,
    failuresOf: (target) =>
      failedKeys.has(target.key)
        ? target
            .candidates()
            .flatMap((candidate) => failureOf(target, candidate) ?? [])
            .sort((a, b) => b.atMs - a.atMs)
        : [],
  };
}

export function attemptOf(machine: string, key: string): string {
  return `${machine} ${key}`;
}

export function withRemedy(code: ErrorCode, message: string): Problem {
  return { code, message: `${message}; ${defaultRemedy(code).summary}` };
}

function conditionsOf({ model, build, hasWeights }: Machine): string {
  return JSON.stringify([build, hasWeights, benchmarkPlanOf(model)]);
}
