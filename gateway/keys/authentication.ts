/** The result of authenticating a request: who sends it and what they may use, or why they are refused. */
import type { Priority } from "../../src/api/fields/shared.ts";
import type { KeyLimits, UsableService } from "../../src/gateway/key.ts";

export interface Authenticated {
  /** Identifies the key or the user in limits, usage and metrics. */
  readonly id: string;
  readonly owner: string;
  /** A key answers immediately, a user of Kubernetes after a review or from the cache. */
  readonly mayUse: (service: UsableService) => Promise<UseResult>;
  readonly priority: Priority;
  readonly weight: number;
  readonly limits: KeyLimits;
}

/** `unavailable`: the API server does not answer the review. */
export type UseResult = "allowed" | "forbidden" | "unavailable";

export type Authentication =
  | { readonly at: "authenticated"; readonly caller: Authenticated }
  | {
      readonly at: "refused";
      /** `unavailable` is temporary: the keys are not read yet, or a token cannot be reviewed. Answer 503, and 401 to the others. */
      readonly reason: "missing" | "unknown" | "expired" | "disabled" | "revoked" | "foreign" | "unavailable";
      /** For the client: the case, then what to do. */
      readonly message: string;
    };

/** Headers by lower-case name. */
export type RequestHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

export interface Authenticator {
  readonly authenticate: (headers: RequestHeaders) => Promise<Authentication>;
}
