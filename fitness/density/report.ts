/** The state of the cluster's machines as Markdown, for people and agents: status, issues, capacity, density. Pure. */
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { servingOf } from "../../src/api/inference-service/serving.ts";
import { keyOf } from "../../src/api/names.ts";
import type { Moment } from "../../src/util/moment.ts";
import { round } from "../scoring/units.ts";
import { type CostRow, cost } from "./cost.ts";
import type { Density } from "./density.ts";
import { groupSites, type NodeRow, nodeRow, rank } from "./views.ts";

export type ReportStatus = "HEALTHY" | "DEGRADED" | "CRITICAL";

type ServiceState = Pick<InferenceService, "metadata" | "spec" | "status">;

/** The parts of the cluster that the reader may see. */
interface Seen {
  /** With those that have no replica, for example because they failed. */
  readonly services: readonly ServiceState[];
  readonly areMachinesHidden?: boolean;
  /** A note if no controller leads: then the phases of services and replicas are old. */
  readonly controller?: string | undefined;
  /** Parts that are not shown, and why. */
  readonly missing?: readonly string[];
}

/** Ends in a line break. */
export function renderDensityReport(
  density: Density,
  { services, areMachinesHidden = false, missing = [], controller }: Seen,
  now: Moment,
): string {
  const nodes = density.sites().map((site) => nodeRow(density, site, now));
  const { models } = cost(density);
  const issues = [
    ...(controller === undefined ? [] : [`Controller: ${controller}`]),
    ...issuesOf(nodes, models, services),
  ];
  const fresh = nodes.filter(({ stale }) => !stale);
  // Without any machine, it is unknown whether there are some.
  const isUnknown = areMachinesHidden && nodes.length === 0;
  const sections = [
    ["# Metalbridge report", `${new Date(now.wallMs).toISOString().slice(0, 19)}Z`],
    ["## Status", statusOf({ isReachable: isUnknown || fresh.length > 0, models, services, issues })],
    ...(missing.length === 0 ? [] : [["## Not shown", bullets(missing)]]),
    ["## Issues", bullets(issues)],
    ["## Metrics", bullets(isUnknown ? modelMetrics(models) : metricsOf(nodes, fresh, models))],
    ...(isUnknown ? [] : [["## Density", densityOf(density, nodes, models, now)]]),
  ];
  return `${sections.map((section) => section.join("\n\n")).join("\n\n")}\n`;
}

function statusOf({
  isReachable,
  models,
  services,
  issues,
}: {
  /** False if no machine is. */
  readonly isReachable: boolean;
  readonly models: readonly CostRow[];
  readonly services: readonly ServiceState[];
  readonly issues: readonly string[];
}): ReportStatus {
  const isExpected = models.length > 0 || services.some((service) => servingOf(service) !== "resting");
  const isServed = !isExpected || models.some(({ phase }) => phase === "Ready");
  if (!isReachable || !isServed) return "CRITICAL";
  return issues.length === 0 ? "HEALTHY" : "DEGRADED";
}

/** The words of a service say more than the phase of its replica. */
function issuesOf(
  nodes: readonly NodeRow[],
  models: readonly CostRow[],
  services: readonly ServiceState[],
): readonly string[] {
  const ailing = services.filter(
    (service) => servingOf(service) === "notReady" || /^(Failed|Degraded)$/.test(service.status?.phase ?? ""),
  );
  const named = new Set(ailing.map(({ metadata }) => keyOf(metadata)));
  return [
    ...ailing.map(serviceIssue),
    ...nodes.flatMap(({ nodeName, kind, stale, problem }) =>
      problem === undefined && !stale
        ? []
        : [`${kind} ${nodeName}: ${problem ?? "its Lease has not changed for 90 s"}`],
    ),
    ...models.flatMap(({ namespace, service, placedNode, phase }) =>
      phase === "Ready" || named.has(`${namespace}/${service}`)
        ? []
        : [`${namespace}/${service} on ${placedNode}: ${phase}`],
    ),
  ];
}

function serviceIssue({ metadata, status }: ServiceState): string {
  const { phase = "Pending", message = "the controller has not reported on it" } = status ?? {};
  return `${keyOf(metadata)}: ${phase}: ${message}`;
}

function metricsOf(
  nodes: readonly NodeRow[],
  fresh: readonly NodeRow[],
  models: readonly CostRow[],
): readonly string[] {
  const [held = "", placed = ""] = modelMetrics(models);
  return [
    `machines: ${nodes.length}, stale: ${nodes.length - fresh.length}`,
    held,
    `memory left for new ones: ${sumOf(fresh.map((node) => node.memoryLeftGb ?? 0))} GiB`,
    placed,
  ];
}

function modelMetrics(models: readonly CostRow[]): readonly string[] {
  return [
    `memory held by replicas: ${sumOf(models.map(({ memoryRequiredGb }) => memoryRequiredGb))} GiB`,
    `models placed: ${new Set(models.map(({ namespace, name }) => `${namespace}/${name}`)).size}, replicas: ${sumOf(models.map(({ replicas }) => replicas))}`,
  ];
}

function sumOf(values: readonly number[]): number {
  return round(
    values.reduce((all, one) => all + one, 0),
    2,
  );
}

function densityOf(
  density: Density,
  nodes: readonly NodeRow[],
  models: readonly CostRow[],
  now: Moment,
): string {
  const rows = nodes.map(({ nodeName, kind, bestScore, modelFitCount, memoryLeftGb, stale, schedulable }) => {
    const state = stale ? "stale" : schedulable ? "" : "unschedulable";
    return `| ${[nodeName, kind, bestScore, modelFitCount, memoryLeftGb ?? "", state].join(" | ")} |`;
  });
  const table = [
    "| node | kind | best score | models that fit | GiB left | state |",
    "|---|---|---|---|---|---|",
    ...rows,
  ];
  const stale = nodes.flatMap(({ nodeName, stale: isStale }) => (isStale ? [nodeName] : []));
  return [
    table.join("\n"),
    `Stale: ${stale.length === 0 ? "none" : stale.join(", ")}.`,
    `To reschedule:\n\n${bullets(models.flatMap((row) => replacementOf(density, row, now) ?? []))}`,
  ].join("\n\n");
}

/** For a model on a stale machine, or on one that it does not fit: the problem and the best machine with room. */
function replacementOf(density: Density, row: CostRow, now: Moment): string | undefined {
  const site = density.site(row.placedNode);
  if (site === undefined) return undefined;
  const { record } = density.modelOf({ ...row, bytes: 0, gpus: 0 });
  const fit = record === undefined ? undefined : density.fitOf(site, record);
  const why = density.isStale(site, now)
    ? "is stale"
    : fit?.level === "too_tight"
      ? "has too little memory for it"
      : undefined;
  if (why === undefined) return undefined;
  const { rows, total } = rank(groupSites(density, now), record === undefined ? [] : [record], {
    minLevel: "marginal",
    sort: "score",
  });
  const better = rows(0, total).find(
    ({ nodeName, stale, schedulable, fitsNow }) =>
      nodeName !== row.placedNode && !stale && schedulable && fitsNow,
  );
  const where =
    better === undefined
      ? "no other machine has room"
      : `${better.nodeName} has room (score ${better.score})`;
  return `${row.namespace}/${row.service}: ${row.placedNode} ${why}; ${where}`;
}

function bullets(lines: readonly string[]): string {
  return lines.length === 0 ? "None." : lines.map((line) => `- ${line}`).join("\n");
}
