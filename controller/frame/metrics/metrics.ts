/** The metrics of the controller: its counters, and facts that are read at each scrape. */
import { createHistogram, observeValue } from "../../../src/http/metrics/histogram.ts";
import { withFlexinferNames } from "../../../src/http/metrics/live.ts";
import { renderFamilies } from "../../../src/http/metrics/render.ts";
import { createTally } from "../../../src/http/metrics/tally.ts";
import type { Clock } from "../../../src/util/ports.ts";
import type { MoveResult } from "../move-tracker.ts";
import type { ControllerFacts, LeaderFacts, Passes } from "./facts.ts";
import { controllerMetrics } from "./families.ts";

export interface ControllerMetrics {
  readonly text: () => string;
  readonly setLeading: (isLeading: boolean) => void;
  /** Runs, times and counts one pass over a key of `queue`. */
  readonly pass: <T>(queue: string, pass: () => Promise<T>) => Promise<T>;
  readonly countAnswer: (verb: string, status: number) => void;
  readonly countMove: (result: MoveResult) => void;
  /** Sets the function that reads the leader's facts at each scrape; undefined removes it. */
  readonly watch: (leader: (() => LeaderFacts) | undefined) => void;
}

const PASS_SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60] as const;

export function createControllerMetrics(clock: Clock, flexinferMetricNames = false): ControllerMetrics {
  const families = flexinferMetricNames ? withFlexinferNames(controllerMetrics) : controllerMetrics;
  const passes = new Map<string, Passes>();
  const apiRequests = createTally();
  const moves: Record<MoveResult, number> = { Moved: 0, GivenUp: 0, Blocked: 0 };
  const startedAtSeconds = clock.nowMs() / 1_000 - process.uptime();
  let isLeading = false;
  let leader: (() => LeaderFacts) | undefined;
  const facts = (): ControllerFacts => {
    const { user, system } = process.cpuUsage();
    const { rss: residentBytes, heapUsed: heapUsedBytes } = process.memoryUsage();
    const own = { cpuSeconds: (user + system) / 1e6, residentBytes, heapUsedBytes, startedAtSeconds };
    return { isLeading, passes, apiRequests, moves, leader: leader?.(), process: own };
  };
  const passesOf = (queue: string): Passes => {
    const found = passes.get(queue) ?? { seconds: createHistogram(PASS_SECONDS), failures: 0 };
    passes.set(queue, found);
    return found;
  };
  return {
    text: () => renderFamilies(families, facts()),
    setLeading: (leads) => {
      isLeading = leads;
    },
    pass: async (queue, pass) => {
      const counted = passesOf(queue);
      const startedAt = clock.monotonicMs();
      try {
        return await pass();
      } catch (error) {
        counted.failures += 1;
        throw error;
      } finally {
        observeValue(counted.seconds, (clock.monotonicMs() - startedAt) / 1_000);
      }
    },
    countAnswer: (verb, status) => apiRequests.add({ verb, code: String(status) }),
    countMove: (result) => {
      moves[result] += 1;
    },
    watch: (read) => {
      leader = read;
    },
  };
}
