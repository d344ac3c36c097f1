/** The report of a cluster node in a ConfigMap. `metalbridge node` writes it, and its readers do not trust it. Pure. */
import { z } from "zod";
import { parseJson } from "../util/parse-json.ts";
import { reportedGpusSchema } from "./fields/reported-gpu.ts";

export const NODE_REPORT_KEY = "node.json";
const NAME_PREFIX = "metalbridge-node-";
/** More memory than any machine has. */
const MAX_BYTES = 64 * 1024 ** 4;
const MAX_CORES = 4096;
const MAX_TEXT = 256;
const MAX_REPORTED_RUNTIMES = 32;
export const MAX_REPORTED_MODELS = 256;
const MAX_NOTES = 32;
/** Well below the 1 MiB limit of a ConfigMap. */
const MAX_CHARACTERS = 256 * 1024;

const text = z.string().min(1).max(MAX_TEXT);

const memorySchema = z
  .object({
    totalBytes: z.int().min(1).max(MAX_BYTES),
    /** Memory that is available to programs, rounded so that small changes are not published. */
    availableBytes: z.int().min(0).max(MAX_BYTES).optional(),
  })
  .refine(({ totalBytes, availableBytes = 0 }) => availableBytes <= totalBytes, {
    path: ["availableBytes"],
    message: "more than totalBytes",
  });

const installedModelSchema = z.object({
  /** A source in the form of Model.spec.source, or a file name. */
  name: text,
  /** The program that stores the model. */
  runtime: text,
  sizeBytes: z.int().min(0).max(MAX_BYTES).optional(),
});

const nodeReportSchema = z.object({
  memory: memorySchema.optional(),
  cpu: z.object({
    name: text.optional(),
    cores: z.int().min(1).max(MAX_CORES).optional(),
    /** Architecture as named by Kubernetes: amd64, arm64. */
    arch: text.optional(),
    /** The processor has AVX-512. */
    avx512: z.boolean().optional(),
  }),
  gpus: reportedGpusSchema,
  /** Mean of all GPUs over one minute, from 0 to 1 in steps of a tenth. */
  gpuUtilization: z.number().min(0).max(1).optional(),
  runtimes: z.array(z.object({ name: text, version: text.optional() })).max(MAX_REPORTED_RUNTIMES),
  models: z.array(installedModelSchema).max(MAX_REPORTED_MODELS),
  /** Readings that failed or were invalid, each with the reason. */
  leftOut: z.array(text).max(MAX_NOTES),
});

export type NodeReport = z.output<typeof nodeReportSchema>;
export type InstalledModel = z.output<typeof installedModelSchema>;
export type InstalledRuntime = NodeReport["runtimes"][number];

export type NodeReportRead =
  | { readonly at: "known"; readonly report: NodeReport }
  | { readonly at: "unusable"; readonly why: string };

export function nodeReportName(node: string): string {
  return `${NAME_PREFIX}${node}`;
}

/** The node that a ConfigMap of this name is about. */
export function nodeOfReport(name: string): string | undefined {
  return name.startsWith(NAME_PREFIX) ? name.slice(NAME_PREFIX.length) : undefined;
}

/** Reads the report in a ConfigMap; undefined if the node has none. */
export function reportInConfigMap(
  map: { readonly data?: Readonly<Record<string, string>> } | undefined,
): NodeReportRead | undefined {
  return map && readNodeReport(map.data?.[NODE_REPORT_KEY]);
}

/** Reads `data["node.json"]`. */
export function readNodeReport(given: string | undefined): NodeReportRead {
  const unusable = (why: string) => ({ at: "unusable", why: `its node report ${why}` }) as const;
  if (given === undefined) return unusable(`has no ${NODE_REPORT_KEY}`);
  if (given.length > MAX_CHARACTERS) return unusable(`is longer than ${MAX_CHARACTERS} characters`);
  const value = parseJson(given);
  if (value === undefined) return unusable("is not JSON");
  const parsed = nodeReportSchema.safeParse(value);
  if (parsed.success) return { at: "known", report: parsed.data };
  const [issue] = parsed.error.issues;
  return unusable(
    `is not usable: ${issue?.path.join(".") || NODE_REPORT_KEY}: ${issue?.message ?? "invalid"}`,
  );
}

/** Truncates texts and lists and drops implausible sizes, so that the report can always be published. */
export function boundedReport(found: NodeReport, maxModels = MAX_REPORTED_MODELS): NodeReport {
  const { gpus, runtimes, models, leftOut, cpu, ...others } = found;
  const moreModels = models.length - maxModels;
  const notes = moreModels > 0 ? [`${moreModels} more installed models`, ...leftOut] : leftOut;
  const report = {
    ...others,
    cpu: { ...cpu, name: cpu.name && cut(cpu.name) },
    gpus,
    runtimes: runtimes
      .slice(0, MAX_REPORTED_RUNTIMES)
      .map(({ name, version }) => ({ name: cut(name), version: version && cut(version) })),
    models: models.slice(0, maxModels).map(boundedModel),
    leftOut: notes.slice(0, MAX_NOTES).map(cut),
  };
  // JSON encodes a control character in six characters. A report without models always fits.
  const isLong = JSON.stringify(report).length > MAX_CHARACTERS;
  return isLong && maxModels > 0 ? boundedReport(found, maxModels >> 1) : report;
}

function cut(value: string): string {
  return value.slice(0, MAX_TEXT).toWellFormed();
}

function boundedModel({ name, runtime, sizeBytes }: InstalledModel): InstalledModel {
  const isSize = sizeBytes !== undefined && installedModelSchema.shape.sizeBytes.safeParse(sizeBytes).success;
  return { name: cut(name), runtime, sizeBytes: isSize ? sizeBytes : undefined };
}

/** Keeps the published free memory and utilization until they have changed by a twentieth of the total, and by a tenth. */
export function steadyReport(before: NodeReport | undefined, now: NodeReport): NodeReport {
  return {
    ...withSteadyMemory(before, now),
    gpuUtilization: steadyUtilization(before?.gpuUtilization, now.gpuUtilization),
  };
}

function steadyUtilization(published: number | undefined, measured: number | undefined): number | undefined {
  if (measured === undefined) return undefined;
  const isSteady = published !== undefined && Math.abs(measured - published) < 0.1;
  return isSteady ? published : Math.round(measured * 10) / 10;
}

function withSteadyMemory(before: NodeReport | undefined, now: NodeReport): NodeReport {
  const published = before?.memory?.availableBytes;
  const measured = now.memory?.availableBytes;
  if (now.memory === undefined || measured === undefined) return now;
  const { totalBytes } = now.memory;
  const step = Math.max(MIB_256, totalBytes / STEPS);
  const isSteady =
    published !== undefined && published <= totalBytes && Math.abs(measured - published) < step;
  const availableBytes = isSteady
    ? published
    : Math.min(totalBytes, Math.round(measured / MIB_256) * MIB_256);
  return { ...now, memory: { totalBytes, availableBytes } };
}

const MIB_256 = 256 * 1024 ** 2;
const STEPS = 20;
