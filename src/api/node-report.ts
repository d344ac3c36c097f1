/** What a node of the cluster says of itself in a ConfigMap: `metalbridge node` writes it, and nothing in it is trusted. Pure. */
import { z } from "zod";
import { reportedGpusSchema } from "./fields/reported-gpu.ts";

export const NODE_REPORT_KEY = "node.json";
const NAME_PREFIX = "metalbridge-node-";
/** No machine has more. */
const MAX_BYTES = 64 * 1024 ** 4;
const MAX_CORES = 4096;
const MAX_TEXT = 256;
export const MAX_REPORTED_RUNTIMES = 32;
export const MAX_REPORTED_MODELS = 256;
const MAX_NOTES = 32;
/** A ConfigMap holds 1 MiB. */
const MAX_CHARACTERS = 256 * 1024;

const text = z.string().min(1).max(MAX_TEXT);

const memorySchema = z
  .object({
    totalBytes: z.int().min(1).max(MAX_BYTES),
    /** What programs could get now; in coarse steps, so that noise is not written. */
    availableBytes: z.int().min(0).max(MAX_BYTES).optional(),
  })
  .refine(({ totalBytes, availableBytes = 0 }) => availableBytes <= totalBytes, {
    path: ["availableBytes"],
    message: "more than totalBytes",
  });

export const installedModelSchema = z.object({
  /** A source, as spec.source of a Model has it, or a file's name. */
  name: text,
  /** The program that keeps it. */
  runtime: text,
  sizeBytes: z.int().min(0).max(MAX_BYTES).optional(),
});

export const nodeReportSchema = z.object({
  memory: memorySchema.optional(),
  cpu: z.object({
    name: text.optional(),
    cores: z.int().min(1).max(MAX_CORES).optional(),
    /** As Kubernetes calls it: amd64, arm64. */
    arch: text.optional(),
  }),
  gpus: reportedGpusSchema,
  runtimes: z.array(z.object({ name: text, version: text.optional() })).max(MAX_REPORTED_RUNTIMES),
  models: z.array(installedModelSchema).max(MAX_REPORTED_MODELS),
  /** What could not be read, or was no possible value, each with the reason. */
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

/** Of its ConfigMap; undefined where the node has none. */
export function reportInConfigMap(
  map: { readonly data?: Readonly<Record<string, string>> } | undefined,
): NodeReportRead | undefined {
  return map && readNodeReport(map.data?.[NODE_REPORT_KEY]);
}

/** Of `data["node.json"]`. */
export function readNodeReport(given: string | undefined): NodeReportRead {
  const unusable = (why: string) => ({ at: "unusable", why: `its node report ${why}` }) as const;
  if (given === undefined) return unusable(`has no ${NODE_REPORT_KEY}`);
  if (given.length > MAX_CHARACTERS) return unusable(`is longer than ${MAX_CHARACTERS} characters`);
  let value: unknown;
  try {
    value = JSON.parse(given);
  } catch {
    return unusable("is not JSON");
  }
  const parsed = nodeReportSchema.safeParse(value);
  if (parsed.success) return { at: "known", report: parsed.data };
  const [issue] = parsed.error.issues;
  return unusable(
    `is not usable: ${issue?.path.join(".") || NODE_REPORT_KEY}: ${issue?.message ?? "invalid"}`,
  );
}

/** Longer texts and lists are cut, and sizes that no model has left out, so that what was found can always be published. */
export function boundedReport(found: NodeReport, mostModels = MAX_REPORTED_MODELS): NodeReport {
  const { gpus, runtimes, models, leftOut, cpu, ...rest } = found;
  const moreModels = models.length - mostModels;
  const notes = moreModels > 0 ? [`${moreModels} more installed models`, ...leftOut] : leftOut;
  const report = {
    ...rest,
    cpu: { ...cpu, ...(cpu.name === undefined ? {} : { name: cut(cpu.name) }) },
    gpus,
    runtimes: runtimes.slice(0, MAX_REPORTED_RUNTIMES).map(({ name, version }) => ({
      name: cut(name),
      ...(version === undefined ? {} : { version: cut(version) }),
    })),
    models: models.slice(0, mostModels).map(boundedModel),
    leftOut: notes.slice(0, MAX_NOTES).map(cut),
  };
  // JSON writes a control character with six. Without models it always fits.
  const isLong = JSON.stringify(report).length > MAX_CHARACTERS;
  return isLong && mostModels > 0 ? boundedReport(found, mostModels >> 1) : report;
}

function cut(value: string): string {
  return value.slice(0, MAX_TEXT).toWellFormed();
}

function boundedModel({ name, runtime, sizeBytes }: InstalledModel): InstalledModel {
  const isSize = sizeBytes !== undefined && installedModelSchema.shape.sizeBytes.safeParse(sizeBytes).success;
  return { name: cut(name), runtime, sizeBytes: isSize ? sizeBytes : undefined };
}

/** Free memory that has not moved by a twentieth of the whole is no change: it stays what was published. */
export function steadyReport(before: NodeReport | undefined, now: NodeReport): NodeReport {
  const was = before?.memory?.availableBytes;
  const is = now.memory?.availableBytes;
  if (now.memory === undefined || is === undefined) return now;
  const { totalBytes } = now.memory;
  const step = Math.max(MIB_256, totalBytes / STEPS);
  const isSteady = was !== undefined && was <= totalBytes && Math.abs(is - was) < step;
  const availableBytes = isSteady ? was : Math.min(totalBytes, Math.round(is / MIB_256) * MIB_256);
  return { ...now, memory: { totalBytes, availableBytes } };
}

const MIB_256 = 256 * 1024 ** 2;
const STEPS = 20;
