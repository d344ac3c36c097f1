/** The numbers of llama-server's `/metrics` that tell whether it works and whether it moves. */

export interface Gauges {
  readonly running: number;
  readonly deferred: number;
  /** Decode steps since the start: moves while anything is read or generated. Absent from an engine too old to count them. */
  readonly decodeTotal?: number;
  /** Tokens read and generated since the start. */
  readonly tokensTotal: number;
}

/** Undefined unless both gauges of work in flight are there: half an answer is not "idle". */
export function parseGauges(metricsText: string): Gauges | undefined {
  const values = new Map<string, number>();
  for (const line of metricsText.split("\n")) {
    const match = /^llamacpp:([a-z_]+)(?:\{[^}]*\})? (\S+)/.exec(line);
    if (match?.[1] !== undefined) values.set(match[1], Number(match[2]));
  }
  const running = count(values, "requests_processing");
  const deferred = count(values, "requests_deferred");
  if (running === undefined || deferred === undefined) return undefined;
  const tokens = (count(values, "prompt_tokens_total") ?? 0) + (count(values, "tokens_predicted_total") ?? 0);
  const decodeTotal = count(values, "n_decode_total");
  return { running, deferred, tokensTotal: tokens, ...(decodeTotal === undefined ? {} : { decodeTotal }) };
}

function count(values: ReadonlyMap<string, number>, name: string): number | undefined {
  const value = values.get(name);
  return value !== undefined && Number.isFinite(value) && value >= 0 ? value : undefined;
}
