/** Limits of keys: the questions that the gateway asks when a request arrives, and what it reports at the end of the request. */
import type { KeyLimits } from "../../src/gateway/key.ts";

export type LimitName = keyof KeyLimits;

export type Admission =
  | { readonly at: "admitted" }
  | {
      readonly at: "refused";
      readonly limit: LimitName;
      readonly retryAfterSeconds: number;
      /** For the client: the case, then what to do. */
      readonly message: string;
    };

export interface TokenUsage {
  /** Tokens of the prompt, cached ones included. */
  readonly tokensIn: number;
  readonly tokensOut: number;
  /** Tokens of the prompt that the engine did not have to compute. */
  readonly cached: number;
  /** True if the engine reported no usage, because the client left early. */
  readonly isEstimated: boolean;
}

export interface Limits {
  /**
   * Counts the request under the ticket, from now until `ended`. Waits for no longer than a fraction of a second, and then only
   * for shared counters.
   */
  readonly admit: (
    key: { readonly id: string; readonly limits: KeyLimits },
    ticket: string,
    nowMs: number,
  ) => Promise<Admission>;
  /** Every admitted ticket ends once, with a usage of 0 if it never reached an engine. Unknown tickets are ignored. */
  readonly ended: (ticket: string, usage: TokenUsage, nowMs: number) => void;
}
