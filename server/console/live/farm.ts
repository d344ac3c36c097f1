/** The topic farm: one row, summed for each scope, with the speeds of the last hour. */
import type { DensitySite } from "../../../fitness/density/density.ts";
import { claimedBytes } from "../../../fitness/density/held-memory.ts";
import type { Clock } from "../../../src/util/ports.ts";
import { type FarmMachine, farmRow, type NamespaceFigures, namespaceFigures } from "../rows/farm.ts";
import type { LiveState, ObjectReads } from "./lists.ts";
import { isSeen, type Scope } from "./scope.ts";
import type { TopicTable } from "./table.ts";
import { FARM_KEY } from "./topics.ts";

/** Tokens per second of each namespace, the newest last. All lists end with the same sample. */
export type FarmHistory = ReadonlyMap<string, readonly number[]>;

const SAMPLE_MS = 15_000;
const SAMPLES = 240;

/** Samples from now on, until the signal aborts. */
export function startFarmHistory(
  { services }: Pick<ObjectReads, "services">,
  clock: Clock,
  { signal, onSample }: { readonly signal: AbortSignal; readonly onSample: () => void },
): FarmHistory {
  const history = new Map<string, number[]>();
  const sample = (): void => {
    const figures = namespaceFigures(services.list());
    for (const namespace of new Set([...history.keys(), ...figures.keys()])) {
      const list = history.get(namespace) ?? [];
      list.push(Number((figures.get(namespace)?.tokensPerSecond ?? 0).toFixed(1)));
      if (list.length > SAMPLES) list.shift();
      if (list.some((value) => value > 0)) history.set(namespace, list);
      else history.delete(namespace);
    }
    onSample();
    cancel = clock.after(SAMPLE_MS, sample);
  };
  let cancel = clock.after(SAMPLE_MS, sample);
  signal.addEventListener("abort", () => cancel(), { once: true });
  return history;
}

interface Figures {
  readonly hosts: readonly FarmMachine[];
  readonly nodes: readonly FarmMachine[];
  readonly namespaces: ReadonlyMap<string, NamespaceFigures>;
}

/** The figures are computed once for all scopes. */
export function createFarmTable(state: LiveState, history: FarmHistory): TopicTable {
  let isStale = true;
  let figures: Figures | undefined;
  const texts = new Map<string, string>();
  const compute = (): Figures => {
    isStale = false;
    figures = figuresOf(state);
    texts.clear();
    return figures;
  };
  return {
    mark: () => {
      isStale = true;
    },
    markAll: () => {
      isStale = true;
    },
    hasWork: () => isStale,
    flush: () => {
      if (!isStale) return [];
      compute();
      return [FARM_KEY];
    },
    keys: () => [FARM_KEY],
    rightOf: () => undefined,
    textOf: (_, scope) => {
      const known = figures ?? compute();
      const text = texts.get(scope.key) ?? JSON.stringify(rowFor(scope, known, history));
      texts.set(scope.key, text);
      return text;
    },
  };
}

function rowFor(scope: Scope, { hosts, nodes, namespaces }: Figures, history: FarmHistory): object {
  const isVisible = (namespace: string) => isSeen(scope, { kind: "services", namespace });
  return farmRow(
    [...(isSeen(scope, { kind: "hosts" }) ? hosts : []), ...(isSeen(scope, { kind: "nodes" }) ? nodes : [])],
    [...namespaces].flatMap(([namespace, figures]) => (isVisible(namespace) ? [figures] : [])),
    [...history].flatMap(([namespace, list]) => (isVisible(namespace) ? [list] : [])),
  );
}

function figuresOf({ reads, density }: LiveState): Figures {
  const machineOf = (site: DensitySite): FarmMachine => {
    const { machine, wholeGpus } = site.place;
    const budgetBytes = machine.at === "known" ? machine.machine.budgetBytes : 0;
    return {
      claimedBytes: [...site.held.values()].reduce(
        (sum, held) => sum + claimedBytes(held, { wholeGpus, budgetBytes }),
        0,
      ),
      budgetBytes,
    };
  };
  const sites = density.sites();
  const of = (kind: "Host" | "Node") => sites.filter(({ place }) => place.kind === kind).map(machineOf);
  return { hosts: of("Host"), nodes: of("Node"), namespaces: namespaceFigures(reads.services.list()) };
}
