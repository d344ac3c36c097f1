/** Memory and GPUs of replicas, by service and node, and by namespace. Pure. */
import { compareText } from "../../src/util/text.ts";
import { gibOf, round } from "../scoring/units.ts";
import type { Density, DensitySite, HeldMemory } from "./density.ts";
import { claimedBytes } from "./held-memory.ts";
import { percent } from "./views.ts";

const GIB = 1024 ** 3;

export interface CostRow {
  readonly name: string;
  readonly namespace: string;
  readonly placedNode: string;
  readonly phase: string;
  readonly gpu: number;
  readonly memoryRequiredGb: number;
  readonly utilizationPct: number;
  readonly fitnessScore: number;
  readonly service: string;
  readonly replicas: number;
}

export interface NamespaceCost {
  readonly namespace: string;
  readonly modelCount: number;
  readonly totalGpu: number;
  readonly totalMemoryGb: number;
}

export interface Cost {
  readonly models: readonly CostRow[];
  readonly namespaces: readonly NamespaceCost[];
}

/** Memory of replicas: one row for each service and node, and the sums of each namespace. */
export function cost(density: Density, requested?: string): Cost {
  const { models, namespaces } = density.once(costOfAll);
  if (requested === undefined) return { models, namespaces };
  const isRequested = ({ namespace }: { readonly namespace: string }) => namespace === requested;
  return { models: models.filter(isRequested), namespaces: namespaces.filter(isRequested) };
}

function costOfAll(density: Density): Cost {
  const models = [
    ...density.sites().flatMap((site) => costsOn(density, site.place.name, [...site.held.values()], site)),
    ...density.heldElsewhere().flatMap(([name, held]) => costsOn(density, name, held)),
  ]
    .map((row) => ({ row, key: keyOfCost(row) }))
    .sort((a, b) => b.row.memoryRequiredGb - a.row.memoryRequiredGb || compareText(a.key, b.key))
    .map(({ row }) => row);
  const namespaces = Map.groupBy(models, ({ namespace }) => namespace);
  return {
    models,
    namespaces: [...namespaces]
      .map(([namespace, rows]) => ({
        namespace,
        modelCount: new Set(rows.map(({ name }) => name)).size,
        totalGpu: rows.reduce((sum, { gpu }) => sum + gpu, 0),
        totalMemoryGb: round(
          rows.reduce((sum, row) => sum + row.memoryRequiredGb, 0),
          2,
        ),
      }))
      .sort((a, b) => b.totalMemoryGb - a.totalMemoryGb || compareText(a.namespace, b.namespace)),
  };
}

export function keyOfCost({ namespace, name, service, placedNode }: CostRow): string {
  return `${namespace}/${name}/${service}/${placedNode}`;
}

/** Without a site, the machine is not known. */
function costsOn(
  density: Density,
  placedNode: string,
  held: readonly HeldMemory[],
  site?: DensitySite,
): readonly CostRow[] {
  const services = Map.groupBy(held, ({ namespace, service }) => `${namespace}/${service}`);
  return [...services.values()].flatMap((all) => {
    const [first] = all;
    if (first === undefined) return [];
    const { name, record } = density.modelOf(first);
    const { bytes, ofBytes } = memoryOf(site, all);
    const fit = record === undefined || site === undefined ? undefined : density.fitOf(site, record);
    return [
      {
        name,
        namespace: first.namespace,
        placedNode,
        phase: all.find(({ phase }) => phase !== "Ready")?.phase ?? "Ready",
        gpu: all.reduce((sum, { gpus }) => sum + gpus, 0),
        memoryRequiredGb: gibOf(bytes) ?? 0,
        utilizationPct: percent(bytes, ofBytes),
        fitnessScore: fit === undefined ? 0 : round(fit.score, 1),
        service: first.service,
        replicas: all.length,
      },
    ];
  });
}

/** Memory of one service on a machine, and the memory that it is a part of: that of the GPUs, or where it uses none the RAM. */
function memoryOf(site: DensitySite | undefined, all: readonly HeldMemory[]) {
  const sum = (bytesOf: (held: HeldMemory) => number) => all.reduce((bytes, one) => bytes + bytesOf(one), 0);
  if (site === undefined) return { bytes: sum(({ bytes }) => bytes), ofBytes: 0 };
  const { machine, wholeGpus, system } = site.place;
  const budgetBytes = machine.at === "known" ? machine.machine.budgetBytes : 0;
  const isOnGpus = all.some(({ gpus }) => gpus > 0);
  if (wholeGpus > 0 && !isOnGpus)
    return { bytes: sum(({ bytes }) => bytes), ofBytes: system.total_ram_gb * GIB };
  return { bytes: sum((held) => claimedBytes(held, { wholeGpus, budgetBytes })), ofBytes: budgetBytes };
}
