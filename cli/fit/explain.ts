/** `metalbridge fit --explain`: speed, load, cost and score of each machine for a model. Pure. */
import type { CatalogRecord } from "../../fitness/catalog/record.ts";
import { createFitness } from "../../fitness/fitness.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";
import { deviceClassOf } from "../../src/capacity/devices/devices.ts";
import { costOfNode } from "../../src/capacity/devices/node.ts";
import type { ServiceFit } from "../../src/capacity/fit/service-fit.ts";
import type { ReplicaNeed, ReplicaPlace } from "../../src/capacity/fitness.ts";
import { quantizationOfWeights } from "../../src/capacity/resolve.ts";
import { isUsable, usableMachines } from "../../src/capacity/runs-on.ts";
import { type MachineScore, type ScoreWeights, scoreMachines } from "../../src/capacity/score.ts";
import type { DescribedNode } from "../cluster/nodes.ts";
import { alignColumns } from "../program/table.ts";

export interface ExplainedMachine {
  readonly machine: string;
  readonly kind: "Host" | "Node";
  readonly deviceClass?: string | undefined;
  readonly tokensPerSecond?: number | undefined;
  /** measured: benchmark of the class. live: rate of this host. estimated: by the catalog, which the score ignores. */
  readonly basis?: string | undefined;
  /** From 0 to 1. */
  readonly utilization?: number | undefined;
  readonly cost?: number | undefined;
  readonly score: number;
  readonly why: string;
}

export interface ExplainInput {
  readonly fit: Pick<ServiceFit, "report" | "template" | "claim">;
  readonly model: Model;
  readonly service: InferenceService;
  readonly hosts: readonly Host[];
  readonly nodes: readonly DescribedNode[];
  readonly records: readonly CatalogRecord[];
  readonly weights: ScoreWeights;
}

/** Hosts with the scores of placement, the best first; then nodes, which are compared with each other. */
export function explainMachines(input: ExplainInput): ExplainedMachine[] {
  const estimate = estimator(input);
  const byName = new Map(input.hosts.map((host) => [host.metadata.name, host]));
  const hosts = input.fit.report.hosts.flatMap(({ host, machine }) => {
    const object = byName.get(host);
    return object === undefined ? [] : [rowOf("Host", machine, () => estimate({ host: object }))];
  });
  return [...hosts.sort((a, b) => b.score - a.score), ...explainNodes(input, estimate)];
}

type Figures = Omit<ExplainedMachine, "machine" | "kind" | "tokensPerSecond" | "basis"> &
  Pick<MachineScore, "name"> & { readonly tokensPerSecond?: Speed | undefined };
type Speed = { readonly value: number; readonly basis: string };

function rowOf(
  kind: ExplainedMachine["kind"],
  { name, deviceClass, tokensPerSecond, utilization, cost, score, why }: Figures,
  estimate: () => number | undefined,
): ExplainedMachine {
  const speed = tokensPerSecond?.value ?? estimate();
  const basis = speed === undefined ? undefined : (tokensPerSecond?.basis ?? "estimated");
  return { machine: name, kind, deviceClass, tokensPerSecond: speed, basis, utilization, cost, score, why };
}

/** Those that the labels of the service allow. Measured speeds are those in the status of the Model, and loads those in reports. */
function explainNodes(
  { model, service, nodes, records, weights }: ExplainInput,
  estimate: (place: ReplicaPlace) => number | undefined,
): ExplainedMachine[] {
  const { readNode } = createFitness(records);
  const measured = model.status?.benchmarks ?? [];
  const { nodeSelectors } = usableMachines(service, model);
  const usable = nodes.filter(({ node: { metadata } }) =>
    isUsable({ kind: "Node", ...metadata }, { nodeSelectors }),
  );
  const machines = usable.map(({ node, devices, report }) => {
    const deviceClass = deviceClassOf(devices);
    const speeds = measured
      .filter((one) => one.deviceClass === deviceClass)
      .map((one) => one.tokensPerSecond);
    return {
      name: node.metadata.name,
      node: readNode(node, report),
      deviceClass,
      tokensPerSecond: speeds.length === 0 ? undefined : { value: Math.max(...speeds), basis: "measured" },
      utilization: report?.at === "known" ? report.report.gpuUtilization : undefined,
      cost: costOfNode(node),
    };
  });
  const byName = new Map(machines.map((machine) => [machine.name, machine]));
  return scoreMachines(machines, weights).flatMap((scored) => {
    const machine = byName.get(scored.name);
    if (machine === undefined) return [];
    const { node } = machine;
    const pod = {
      accelerator: node.gpus?.accelerator ?? "cpu",
      gpus: node.gpus === undefined ? 0 : 1,
    } as const;
    return [rowOf("Node", { ...machine, ...scored }, () => estimate({ node, pod }))];
  });
}

/** Tokens per second that the catalog expects, if it has the model and the model fits. */
function estimator({ fit, model, records }: ExplainInput): (place: ReplicaPlace) => number | undefined {
  const { spec } = model;
  const { claim, template } = fit;
  const claimBytes: ReplicaNeed["claimBytes"] = (accelerator) =>
    claim.at === "estimated" ? (claim.on?.[accelerator] ?? claim.memory).claimBytes : undefined;
  const scorer = createFitness(records).forReplica({
    source: spec.source,
    quantization: quantizationOfWeights(model),
    files: spec.files,
    settings: template.engine,
    claimBytes,
  });
  return (place) => {
    const found = scorer.fitOn(place);
    return found.at === "fits" ? found.scored?.tokensPerSecond.value : undefined;
  };
}

export function renderExplained(machines: readonly ExplainedMachine[]): readonly string[] {
  const rows = machines.map(
    ({ machine, kind, deviceClass, tokensPerSecond, basis, utilization, cost, ...rest }) => [
      ...[machine, kind, deviceClass ?? "unknown"],
      tokensPerSecond === undefined ? "unknown" : `${Number(tokensPerSecond.toPrecision(3))} (${basis})`,
      utilization === undefined ? "unknown" : `${Math.round(utilization * 100)}%`,
      ...[cost === undefined ? "-" : String(cost), rest.score.toFixed(2), rest.why.replace(/^\S+: /, "")],
    ],
  );
  return alignColumns([["MACHINE", "KIND", "CLASS", "TOKENS/S", "IN USE", "COST", "SCORE", "WHY"], ...rows]);
}
