/** The figures of the whole farm, as far as a reader may see it. Pure. */
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { servingOf } from "../../../src/api/inference-service/serving.ts";
import type { FarmRow } from "../../../src/console/rows.ts";

/** One machine that has joined. */
export interface FarmMachine {
  readonly claimedBytes: number;
  readonly budgetBytes: number;
}

/** Services of one namespace. */
export interface NamespaceFigures {
  readonly ready: number;
  readonly total: number;
  readonly tokensPerSecond: number;
  readonly requestsInFlight: number;
}

const NONE: NamespaceFigures = { ready: 0, total: 0, tokensPerSecond: 0, requestsInFlight: 0 };

export function namespaceFigures(
  services: readonly InferenceService[],
): ReadonlyMap<string, NamespaceFigures> {
  const figures = new Map<string, NamespaceFigures>();
  for (const service of services) {
    const namespace = service.metadata.namespace ?? "default";
    figures.set(namespace, sum(figures.get(namespace) ?? NONE, figuresOf(service)));
  }
  return figures;
}

/** `history` has one list for each namespace that the reader may see, the newest value last. */
export function farmRow(
  machines: readonly FarmMachine[],
  namespaces: Iterable<NamespaceFigures>,
  history: readonly (readonly number[])[],
): FarmRow {
  const { ready, total, tokensPerSecond, requestsInFlight } = [...namespaces].reduce(sum, NONE);
  return {
    services: { ready, total },
    claimedBytes: machines.reduce((bytes, { claimedBytes }) => bytes + claimedBytes, 0),
    budgetBytes: machines.reduce((bytes, { budgetBytes }) => bytes + budgetBytes, 0),
    tokensPerSecond: rounded(tokensPerSecond),
    requestsInFlight: rounded(requestsInFlight),
    history: summedHistory(history),
  };
}

function figuresOf(service: InferenceService): NamespaceFigures {
  const { tokensPerSecond = 0, requestsInFlight = 0 } = service.status?.performance ?? {};
  const serving = servingOf(service);
  return {
    ready: serving === "ready" ? 1 : 0,
    total: serving === "resting" ? 0 : 1,
    tokensPerSecond,
    requestsInFlight,
  };
}

function sum(a: NamespaceFigures, b: NamespaceFigures): NamespaceFigures {
  return {
    ready: a.ready + b.ready,
    total: a.total + b.total,
    tokensPerSecond: a.tokensPerSecond + b.tokensPerSecond,
    requestsInFlight: a.requestsInFlight + b.requestsInFlight,
  };
}

/** Lists end with the same sample and may begin later than others. */
function summedHistory(lists: readonly (readonly number[])[]): readonly number[] {
  const length = Math.max(0, ...lists.map((list) => list.length));
  return Array.from({ length }, (_, index) =>
    rounded(lists.reduce((total, list) => total + (list[list.length - length + index] ?? 0), 0)),
  );
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}
