/** Identities of tokens and rights of users, by reviews of the API server, with results cached for seconds. */

import { createHash } from "node:crypto";
import { setBounded } from "../../util/bounded-map.ts";
import type { Clock } from "../../util/ports.ts";
import { SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS } from "../kinds.ts";
import type { AccessReview, UserInfo } from "../objects.ts";
import type { ApiFailure, KubeClient } from "../types.ts";

export type KnownUser = UserInfo & { readonly username: string };

export type TokenIdentity =
  | { readonly at: "user"; readonly user: KnownUser }
  | { readonly at: "stranger" }
  /** The API server does not answer, or there are too many reviews. */
  | { readonly at: "unavailable"; readonly why: string };

export type AccessVerdict =
  | { readonly at: "allowed" }
  | { readonly at: "forbidden" }
  | { readonly at: "unavailable"; readonly why: string };

export type ReviewedAccess = AccessReview["spec"]["resourceAttributes"];

export interface Reviews {
  /** `address` is the client's address. */
  readonly identify: (token: string, address: string) => Promise<TokenIdentity>;
  /** `cacheKey` identifies the user, for example by a token. */
  readonly mayAccess: (cacheKey: string, user: KnownUser, access: ReviewedAccess) => Promise<AccessVerdict>;
}

export const REVIEW_LIMITS = {
  grantedMs: 30_000,
  /** Short, because a newly granted right must take effect soon. */
  refusedMs: 3_000,
  granted: 4_096,
  /** Separate from grants: invalid tokens evict only other invalid ones. */
  refused: 256,
  pending: 128,
  /** Reviews of new tokens per address, so one address cannot block the others. */
  pendingOfAddress: 16,
};

export type ReviewLimits = typeof REVIEW_LIMITS;

export function createReviews({
  client,
  clock,
  limits: changed,
}: {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly limits?: Partial<ReviewLimits> | undefined;
}): Reviews {
  const limits = { ...REVIEW_LIMITS, ...changed };
  const all = createGate(limits.pending);
  const ofAddress = createGate(limits.pendingOfAddress);
  const users = createReviewCache<TokenIdentity>(clock, limits, {
    isYes: ({ at }) => at === "user",
    isNo: ({ at }) => at === "stranger",
  });
  const verdicts = createReviewCache<AccessVerdict>(clock, limits, {
    isYes: ({ at }) => at === "allowed",
    isNo: ({ at }) => at === "forbidden",
  });
  return {
    identify: (token, address) =>
      users(reviewKeyOf(token), () => ofAddress(address, () => all("", () => review(client, token)))),
    mayAccess: (cacheKey, user, access) =>
      verdicts(reviewKeyOf(JSON.stringify([cacheKey, access])), () =>
        all("", () => reviewAccess(client, user, access)),
      ),
  };
}

/** Limits the pending calls per key, which bounds the cost of guessed tokens. */
function createGate(max: number) {
  const pending = new Map<string, number>();
  return async <T extends { readonly at: string }>(key: string, ask: () => Promise<T>) => {
    const before = pending.get(key) ?? 0;
    if (before >= max) return { at: "unavailable", why: "too many reviews at once" } as const;
    pending.set(key, before + 1);
    try {
      return await ask();
    } finally {
      const left = (pending.get(key) ?? 1) - 1;
      if (left === 0) pending.delete(key);
      else pending.set(key, left);
    }
  };
}

/** A key of fixed length; no token stays in memory. */
export function reviewKeyOf(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}

async function review(client: KubeClient, token: string): Promise<TokenIdentity> {
  const response = await client.create(TOKEN_REVIEWS, { metadata: { name: "" }, spec: { token } });
  if (!response.ok) return { at: "unavailable", why: failureText(response.error) };
  const { authenticated = false, user } = response.value.status ?? {};
  const username = user?.username;
  return authenticated && username !== undefined
    ? { at: "user", user: { ...user, username } }
    : { at: "stranger" };
}

async function reviewAccess(
  client: KubeClient,
  { username, uid, groups, extra }: KnownUser,
  resourceAttributes: ReviewedAccess,
): Promise<AccessVerdict> {
  const response = await client.create(SUBJECT_ACCESS_REVIEWS, {
    metadata: { name: "" },
    spec: { user: username, uid, groups, extra, resourceAttributes },
  });
  if (!response.ok) return { at: "unavailable", why: failureText(response.error) };
  return { at: response.value.status?.allowed === true ? "allowed" : "forbidden" };
}

function failureText({ kind, message }: ApiFailure): string {
  return kind === "forbidden"
    ? `this server has no permission to review tokens: ${message}`
    : `the API server: ${message}`;
}

/** One review at a time per key. Grants are cached long, denials briefly in a separate small cache, other results not at all. */
export function createReviewCache<T>(
  clock: Clock,
  limits: ReviewLimits,
  { isYes, isNo }: { readonly isYes: (value: T) => boolean; readonly isNo: (value: T) => boolean },
) {
  const pendingReviews = new Map<string, Promise<T>>();
  const granted = createCache<T>(clock, limits.granted, limits.grantedMs);
  const refused = createCache<T>(clock, limits.refused, limits.refusedMs);
  return (key: string, ask: () => Promise<T>): Promise<T> => {
    const known = granted.get(key) ?? refused.get(key);
    if (known !== undefined) return Promise.resolve(known);
    const pending = pendingReviews.get(key);
    if (pending !== undefined) return pending;
    const response = ask()
      .then((value) => {
        if (isYes(value)) granted.set(key, value);
        else if (isNo(value)) refused.set(key, value);
        return value;
      })
      .finally(() => pendingReviews.delete(key));
    pendingReviews.set(key, response);
    return response;
  };
}

/** Evicts the oldest entries first. */
function createCache<T>({ monotonicMs }: Clock, max: number, ttlMs: number) {
  const entries = new Map<string, { readonly value: T; readonly untilMs: number }>();
  return {
    get: (key: string): T | undefined => {
      const found = entries.get(key);
      if (found !== undefined && monotonicMs() < found.untilMs) return found.value;
      entries.delete(key);
      return undefined;
    },
    set: (key: string, value: T): void => {
      setBounded(entries, key, { value, untilMs: monotonicMs() + ttlMs }, max);
    },
  };
}
