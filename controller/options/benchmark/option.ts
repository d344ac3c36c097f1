/** The option: measures each Model once on each class of machines. */
import { z } from "zod";
import type { Host } from "../../../src/api/host.ts";
import type { Node } from "../../../src/kube/workload-objects.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import { GO_DURATION, goDurationSeconds } from "../../../src/util/go-duration.ts";
import type { Option } from "../../frame/option.ts";
import type { ChangeHandlers } from "../../frame/watches/contract.ts";
import { hasOtherCapacity } from "../../frame/watches/pod-watches.ts";
import { podsSettingsOf } from "../../pods/config.ts";
import { isNodeReady } from "../../pods/node-problems.ts";
import { type BenchmarksSettings, createBenchmarks, startBenchmarkJobs } from "./reconcile.ts";

const HOUR_SECONDS = 3_600;

export const benchmarksConfigSchema = z.strictObject({
  benchmarks: z
    .enum(["Auto", "Off"])
    .default("Auto")
    .describe(
      "Auto: measure each Model once on each class of machines, while a machine is idle. Off: start no benchmarks; existing results stay in use.",
    ),
  benchmarkMaxAge: z
    .string()
    .regex(GO_DURATION, "must be a duration such as 720h")
    // An age of less than an hour would measure without end.
    .refine((text) => (goDurationSeconds(text) ?? 0) >= HOUR_SECONDS, "must be at least 1h")
    .default("720h")
    .describe("Age after which a result is measured again, such as 720h."),
});

/** A pass reads all Models and machines, so changes within this time share one. */
const DELAY_MS = 1_000;

export const benchmarks: Option<typeof benchmarksConfigSchema.shape, Parameters<typeof podsSettingsOf>[0]> = {
  shape: benchmarksConfigSchema.shape,
  start: (config) => ({
    queue: "benchmarks",
    lead: (ports) => {
      const enqueue = () => ports.enqueue("all", DELAY_MS);
      const jobs = startBenchmarkJobs({ ...ports, onChange: enqueue });
      const { pass, reportOf } = createBenchmarks({
        ...ports,
        jobs,
        podsSettings: podsSettingsOf(config),
        benchmarks: benchmarksSettingsOf(config),
        onReport: ports.models.enqueue,
      });
      return {
        watches: jobs.watches,
        handlers: handlersOf(enqueue),
        pass,
        keys: () => ["all"],
        benchmarkOf: reportOf,
      };
    },
  }),
};

function benchmarksSettingsOf({
  benchmarks,
  benchmarkMaxAge,
}: z.output<typeof benchmarksConfigSchema>): BenchmarksSettings {
  return { isOn: benchmarks === "Auto", maxAgeMs: (goDurationSeconds(benchmarkMaxAge) ?? 0) * 1_000 };
}

function handlersOf(enqueue: () => void): Partial<ChangeHandlers> {
  return {
    onHost: (_, host, before) => {
      if (!isDeepEqual(hostFactsOf(host), hostFactsOf(before))) enqueue();
    },
    onNode: (node, before) => {
      if (!isDeepEqual(nodeFactsOf(node), nodeFactsOf(before))) enqueue();
    },
    onNodeSlice: enqueue,
    onNodeReport: (report, before) => {
      if (hasOtherCapacity(report, before)) enqueue();
    },
    onReplica: (_, replica, before) => {
      if (replica === undefined || before === undefined) enqueue();
    },
    onBenchmarks: enqueue,
    onBenchmarkFacts: enqueue,
  };
}

/** The parts of a host on which benchmarks depend. */
function hostFactsOf(host: Host | undefined) {
  if (host === undefined) return undefined;
  const { conditions = [], info, runtimes, benchmark, models = [], memory } = host.status ?? {};
  return {
    spec: host.spec,
    info,
    runtimes,
    benchmark,
    deletedAt: host.metadata.deletionTimestamp,
    conditions: conditions.map(({ type, status }) => [type, status]),
    stored: models.map(({ source, sha256 }) => [source, sha256]),
    budget: [memory?.gpuBudgetBytes, memory?.totalBytes],
  };
}

/** The parts of a node on which benchmarks depend. */
function nodeFactsOf(node: Node | undefined) {
  const { allocatable } = node?.status ?? {};
  return node && { labels: node.metadata.labels, spec: node.spec, allocatable, isReady: isNodeReady(node) };
}
