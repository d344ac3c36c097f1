/** Usage of the gateway: rows of counters, and sums over them. */

/** What a row counts for. */
export interface UsageOf {
  /** Id of the key, or of the user of Kubernetes. */
  readonly key: string;
  readonly namespace: string;
  /** Name of the service. */
  readonly model: string;
  /** Host or node. */
  readonly host: string;
}

export interface UsageCounts {
  readonly requests: number;
  /** Requests whose tokens are estimated, because the client left early. */
  readonly estimatedRequests: number;
  /** Tokens of the prompts, cached ones included. */
  readonly tokensIn: number;
  readonly tokensOut: number;
  readonly tokensCached: number;
}

export type UsageRow = UsageOf & UsageCounts;

export const DIMENSIONS = ["key", "model", "namespace", "host"] as const;
export type UsageDimension = (typeof DIMENSIONS)[number];
export const COUNTS = [
  "requests",
  "estimatedRequests",
  "tokensIn",
  "tokensOut",
  "tokensCached",
] as const satisfies readonly (keyof UsageCounts)[];

export function addCounts(a: UsageCounts, b: UsageCounts): UsageCounts {
  return {
    requests: a.requests + b.requests,
    estimatedRequests: a.estimatedRequests + b.estimatedRequests,
    tokensIn: a.tokensIn + b.tokensIn,
    tokensOut: a.tokensOut + b.tokensOut,
    tokensCached: a.tokensCached + b.tokensCached,
  };
}

/** One row per combination of the dimensions. The other dimensions are empty. */
export function sumUsage(
  rows: Iterable<UsageRow>,
  by: readonly UsageDimension[] = DIMENSIONS,
): readonly UsageRow[] {
  const sums = new Map<string, UsageRow>();
  for (const row of rows) {
    const of = { key: "", namespace: "", model: "", host: "" };
    for (const dimension of by) of[dimension] = row[dimension];
    const id = usageId(of);
    const sum = sums.get(id);
    sums.set(id, { ...of, ...(sum === undefined ? countsOf(row) : addCounts(sum, row)) });
  }
  return [...sums.values()];
}

/** Identifies the row of these dimensions. */
export function usageId({ key, namespace, model, host }: UsageOf): string {
  return [key, namespace, model, host].join("\0");
}

/** Tokens that limits and budgets count. */
export function chargedTokens({ tokensIn, tokensOut }: Pick<UsageCounts, "tokensIn" | "tokensOut">): number {
  return tokensIn + tokensOut;
}

function countsOf({ requests, estimatedRequests, tokensIn, tokensOut, tokensCached }: UsageRow): UsageCounts {
  return { requests, estimatedRequests, tokensIn, tokensOut, tokensCached };
}
