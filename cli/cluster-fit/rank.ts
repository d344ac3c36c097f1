/** Ranks the reports of nodes and Hosts, in the format of llmfit-cluster-fit. Pure. */

import type { ProbeEnd } from "../../controller/pods/workload/one-shot-pod.ts";
import { createMatcher } from "../../fitness/catalog/match.ts";
import type { CatalogRecord } from "../../fitness/catalog/record.ts";
import { type Fit, fitOn } from "../../fitness/density/fits.ts";
import { type DensityMachine, machineFromNode } from "../../fitness/density/place.ts";
import { type FitRow, fitRow } from "../../fitness/density/views.ts";
import type { System } from "../../fitness/llmfit/system.ts";
import { isAtLeast } from "../../fitness/scoring/fitness.ts";
import type { Machine, MachineRead } from "../../fitness/scoring/machine.ts";
import { type FitLevel, isFor, type UseCase } from "../../fitness/scoring/score.ts";
import { type NodeReport, readNodeReport } from "../../src/api/node-report.ts";
import type { Node } from "../../src/kube/workload-objects.ts";
import { compareText } from "../../src/util/text.ts";
import { alignColumns } from "../program/table.ts";

export interface RankRequest {
  readonly model: string;
  readonly useCase?: UseCase | undefined;
  readonly minFit: FitLevel;
  /** Maximum number of models for each node. */
  readonly limit: number;
}

export type NodeResult =
  | {
      readonly node: string;
      readonly kind: "Host" | "Node";
      /** False: cordoned or drained. */
      readonly schedulable: boolean;
      readonly model_query: string;
      readonly use_case: UseCase | null;
      readonly min_fit: FitLevel;
      readonly system: { readonly system: System };
      readonly matched_count: number;
      readonly candidate_count: number;
      /** The best matching models. */
      readonly top: readonly FitRow[];
    }
  | {
      readonly node: string;
      readonly kind: "Host" | "Node";
      readonly error: string;
      readonly reason?: string;
      readonly message?: string;
      readonly raw?: string;
    };

export interface RankedNode {
  readonly node: string;
  readonly schedulable: boolean;
  readonly matched_count: number;
  readonly best_fit: FitLevel;
  readonly best_score: number;
  readonly best_model: string;
  readonly best_runtime: string;
  readonly best_quant: string;
  readonly estimated_tps: number;
}

export interface RankPayload {
  readonly requested_model: string;
  readonly min_fit: FitLevel;
  readonly use_case: UseCase | null;
  readonly node_count: number;
  /** Only nodes that a matching model fits. */
  readonly ranked_nodes: readonly RankedNode[];
  readonly node_results: readonly NodeResult[];
}

const EVERY = new Set(["*", "any", "all"]);
const MAX_RAW = 512;
const UNSCHEDULABLE = "unschedulable: cordoned or drained";

/** The models that match the name, which may be the name of a family. */
export function matchingRecords(
  records: readonly CatalogRecord[],
  model: string,
): ReadonlySet<CatalogRecord> {
  if (EVERY.has(model.toLowerCase())) return new Set(records);
  const match = createMatcher(records)(model);
  return new Set(match.at === "one" ? [match.record] : match.at === "several" ? match.records : []);
}

/** The best first; equal scores are sorted by name. */
export function rankPayload(
  results: readonly NodeResult[],
  { model, useCase, minFit }: RankRequest,
): RankPayload {
  const ranked = results.flatMap((result) => {
    const best = "error" in result ? undefined : result.top[0];
    if (best === undefined || "error" in result) return [];
    return [
      {
        node: result.node,
        schedulable: result.schedulable,
        matched_count: result.matched_count,
        best_fit: best.fit_level,
        best_score: best.score,
        best_model: best.name,
        best_runtime: best.runtime,
        best_quant: best.best_quant,
        estimated_tps: best.estimated_tps,
      },
    ];
  });
  return {
    requested_model: model,
    min_fit: minFit,
    use_case: useCase ?? null,
    node_count: results.length,
    ranked_nodes: ranked.sort((a, b) => b.best_score - a.best_score || compareText(a.node, b.node)),
    node_results: results,
  };
}

/** The result of a Host, from its status. */
export function hostResult(
  place: DensityMachine,
  records: readonly CatalogRecord[],
  matching: ReadonlySet<CatalogRecord>,
  request: RankRequest,
): NodeResult {
  const { name: node, staleReason: silence, system, machine, isSchedulable: schedulable } = place;
  if (silence !== undefined)
    return { node, kind: "Host", error: "host is not reachable", reason: "HostSilent", message: silence };
  return scored({ node, kind: "Host", schedulable, system, machine }, records, matching, request);
}

/** The result of a node, from the report of its probe pod and the GPUs of its device plugin. */
export function nodeResult(
  object: Node,
  end: ProbeEnd,
  records: readonly CatalogRecord[],
  matching: ReadonlySet<CatalogRecord>,
  request: RankRequest,
): NodeResult {
  const about = { node: object.metadata.name, kind: "Node" as const };
  if (end.at === "failed") {
    const { phase, reason, message } = end;
    return { ...about, error: `probe did not succeed (phase=${phase})`, reason, message };
  }
  const read = readNodeReport(end.text);
  if (read.at === "unusable") {
    const raw = end.text.slice(0, MAX_RAW);
    return {
      ...about,
      error: "probe output was not valid JSON",
      reason: "AnswerUnusable",
      message: read.why,
      raw,
    };
  }
  const { system, machine, isSchedulable, wholeGpus } = machineFromNode(object, read);
  const answered = {
    ...about,
    schedulable: isSchedulable,
    system,
    machine: wholeGpus > 0 ? machine : asFree(machine, read.report),
  };
  return scored(answered, records, matching, request);
}

/** Without a GPU the budget is the memory that is free now. */
function asFree(read: MachineRead, { memory, leftOut }: NodeReport): MachineRead {
  if (memory === undefined) return { at: "unusable", why: leftOut[0] ?? "its memory is unknown" };
  if (read.at === "unusable") return read;
  const { totalBytes, availableBytes = totalBytes } = memory;
  const budgetBytes = Math.min(read.machine.budgetBytes, availableBytes);
  return { at: "known", machine: { ...read.machine, budgetBytes } };
}

interface Read {
  readonly node: string;
  readonly kind: "Host" | "Node";
  readonly schedulable: boolean;
  readonly system: System;
  readonly machine: MachineRead;
}

function scored(
  { machine, system, schedulable, ...about }: Read,
  records: readonly CatalogRecord[],
  matching: ReadonlySet<CatalogRecord>,
  request: RankRequest,
): NodeResult {
  if (machine.at === "unusable")
    return { ...about, error: "machine is unusable", reason: "MachineUnusable", message: machine.why };
  const fits = records.flatMap((record) => fitFor(record, machine.machine, request) ?? []);
  const candidates = fits.filter(({ level }) => isAtLeast(level, request.minFit));
  const matched = candidates.filter(({ record }) => matching.has(record)).sort(byScore);
  return {
    ...about,
    schedulable,
    model_query: request.model,
    use_case: request.useCase ?? null,
    min_fit: request.minFit,
    system: { system },
    matched_count: matched.length,
    candidate_count: candidates.length,
    top: matched.slice(0, request.limit).map(fitRow),
  };
}

function fitFor(record: CatalogRecord, machine: Machine, { useCase }: RankRequest): Fit | undefined {
  return isFor(record, useCase) ? fitOn(record, machine, { useCase }) : undefined;
}

function byScore(a: Fit, b: Fit): number {
  return b.score - a.score || compareText(a.record.name, b.record.name);
}

export function renderPayload({ node_count, ranked_nodes, node_results, ...request }: RankPayload): string {
  if (node_count === 0) return "no Kubernetes nodes found";
  const rows = ranked_nodes.map((one) => [
    ...[one.node, one.best_model, one.best_score.toFixed(1), one.best_fit, one.best_quant],
    ...[one.estimated_tps.toFixed(1), String(one.matched_count)],
  ]);
  const head = ["NODE", "MODEL", "SCORE", "FIT", "QUANTIZATION", "TOKENS/S", "MATCHES"];
  const notes = node_results.flatMap((result) => {
    if (!("error" in result)) return result.schedulable ? [] : [`${result.node}: ${UNSCHEDULABLE}`];
    const why = [result.error, result.reason, result.message].filter((part) => part).join(": ");
    return [`${result.node}: ${why}`];
  });
  const about = `${request.requested_model} fits ${rows.length} of ${node_count} nodes, ${request.min_fit} or better`;
  const table = rows.length === 0 ? [] : ["", ...alignColumns([head, ...rows])];
  return [about, ...table, ...(notes.length === 0 ? [] : ["", ...notes])].join("\n");
}
