/** Authenticates and authorizes calls by reviews of the API server, with results cached for seconds. */

import { createHash } from "node:crypto";
import { GROUP } from "../../src/api/group.ts";
import { SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS } from "../../src/kube/kinds.ts";
import type { UserInfo } from "../../src/kube/objects.ts";
import type { ApiFailure, KubeClient } from "../../src/kube/types.ts";
import { setBounded } from "../../src/util/bounded-map.ts";
import type { Clock } from "../../src/util/ports.ts";

export type AuthorizationResult =
  | { readonly at: "allowed"; readonly user: string }
  | { readonly at: "unauthenticated" }
  | { readonly at: "forbidden"; readonly user: string }
  /** The API server does not answer, or there are too many reviews. */
  | { readonly at: "unavailable"; readonly why: string };

/**
 * `density/<part>` of the group metalbridge.dev exists only as a name for RBAC. The path is not used, because every
 * authenticated user may get `/api/*` (role system:discovery).
 */
export interface Right {
  readonly verb: "get" | "create";
  readonly part: string;
}

/** `address` is the client's address. */
export type AuthorizeRequest = (token: string, right: Right, address: string) => Promise<AuthorizationResult>;

export const RESOURCE = "density";

const GRANTED_MS = 30_000;
/** Short, because a newly granted right must take effect soon. */
const REFUSED_MS = 3_000;
const LIMITS = {
  granted: 4_096,
  /** Separate from grants: invalid tokens evict only other invalid ones. */
  refused: 256,
  pending: 128,
  /** Reviews of new tokens per address, so one address cannot block the others. */
  pendingOfAddress: 16,
};

type Known =
  | { readonly at: "user"; readonly user: UserInfo & { readonly username: string } }
  | { readonly at: "stranger" }
  | { readonly at: "unavailable"; readonly why: string };

export function createRestAuthorizer({
  client,
  clock,
  limits = LIMITS,
}: {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly limits?: typeof LIMITS;
}): AuthorizeRequest {
  const all = createGate(limits.pending);
  const ofAddress = createGate(limits.pendingOfAddress);
  const users = createReviewCache<Known>(clock, limits, {
    isYes: ({ at }) => at === "user",
    isNo: ({ at }) => at === "stranger",
  });
  const verdicts = createReviewCache<AuthorizationResult>(clock, limits, {
    isYes: ({ at }) => at === "allowed",
    isNo: ({ at }) => at === "forbidden",
  });
  return async (token, right, address) => {
    const known = await users(digestOf(token), () =>
      ofAddress(address, () => all("", () => review(client, token))),
    );
    if (known.at === "stranger") return { at: "unauthenticated" };
    if (known.at === "unavailable") return known;
    const question = digestOf(`${token} ${right.verb} ${right.part}`);
    return verdicts(question, () => all("", () => access(client, known.user, right)));
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
function digestOf(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}

async function review(client: KubeClient, token: string): Promise<Known> {
  const answer = await client.create(TOKEN_REVIEWS, { metadata: { name: "" }, spec: { token } });
  if (!answer.ok) return { at: "unavailable", why: failureText(answer.error) };
  const { authenticated = false, user } = answer.value.status ?? {};
  const username = user?.username;
  return authenticated && username !== undefined
    ? { at: "user", user: { ...user, username } }
    : { at: "stranger" };
}

async function access(
  client: KubeClient,
  { username, uid, groups, extra }: UserInfo & { readonly username: string },
  { verb, part }: Right,
): Promise<AuthorizationResult> {
  const answer = await client.create(SUBJECT_ACCESS_REVIEWS, {
    metadata: { name: "" },
    spec: {
      user: username,
      uid,
      groups,
      extra,
      resourceAttributes: { group: GROUP, resource: RESOURCE, subresource: part, verb },
    },
  });
  if (!answer.ok) return { at: "unavailable", why: failureText(answer.error) };
  return answer.value.status?.allowed === true
    ? { at: "allowed", user: username }
    : { at: "forbidden", user: username };
}

function failureText({ kind, message }: ApiFailure): string {
  return kind === "forbidden"
    ? `this server has no permission to review tokens: ${message}`
    : `the API server: ${message}`;
}

/** One review at a time per key. Grants are cached long, denials briefly in a separate small cache, other results not at all. */
function createReviewCache<T>(
  clock: Clock,
  limits: typeof LIMITS,
  { isYes, isNo }: { readonly isYes: (value: T) => boolean; readonly isNo: (value: T) => boolean },
) {
  const pendingReviews = new Map<string, Promise<T>>();
  const granted = createCache<T>(clock, limits.granted, GRANTED_MS);
  const refused = createCache<T>(clock, limits.refused, REFUSED_MS);
  return (key: string, ask: () => Promise<T>): Promise<T> => {
    const known = granted.get(key) ?? refused.get(key);
    if (known !== undefined) return Promise.resolve(known);
    const pending = pendingReviews.get(key);
    if (pending !== undefined) return pending;
    const answer = ask()
      .then((value) => {
        if (isYes(value)) granted.set(key, value);
        else if (isNo(value)) refused.set(key, value);
        return value;
      })
      .finally(() => pendingReviews.delete(key));
    pendingReviews.set(key, answer);
    return answer;
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
