/** Who calls, and whether they may: asked of the API server for every call, with answers kept for seconds. */
import { createHash } from "node:crypto";
import { GROUP } from "../../src/api/group.ts";
import { SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS } from "../../src/kube/kinds.ts";
import type { UserInfo } from "../../src/kube/objects.ts";
import type { ApiFailure, KubeClient } from "../../src/kube/types.ts";
import type { Clock } from "../../src/util/ports.ts";

export type AuthorizationResult =
  | { readonly at: "allowed"; readonly user: string }
  | { readonly at: "unauthenticated" }
  | { readonly at: "forbidden"; readonly user: string }
  /** The API server does not answer, or too many ask. */
  | { readonly at: "unavailable"; readonly why: string };

/**
 * `density/<part>` of the group metalbridge.dev, as RBAC names it; there is no such object. Not the path: everyone whom the
 * cluster knows may get `/api/*` (its role system:discovery).
 */
export interface Right {
  readonly verb: "get" | "create";
  readonly part: string;
}

/** `address`: where the call comes from. */
export type AuthorizeRequest = (token: string, right: Right, address: string) => Promise<AuthorizationResult>;

export const RESOURCE = "density";

const KEPT_MS = 30_000;
/** A right that was just given must not take long. */
const REFUSED_MS = 3_000;
const LIMITS = {
  granted: 4_096,
  /** Apart from the others: whoever sends made-up tokens pushes out other made-up ones only. */
  refused: 256,
  pending: 128,
  /** Of tokens that are not known yet: one address cannot keep the others from being reviewed. */
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
  const users = createKept<Known>(clock, limits, {
    isYes: ({ at }) => at === "user",
    isNo: ({ at }) => at === "stranger",
  });
  const verdicts = createKept<AuthorizationResult>(clock, limits, {
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

/** Bounded: whoever guesses tokens costs no more than this. */
function createGate(most: number) {
  const pending = new Map<string, number>();
  return async <T extends { readonly at: string }>(key: string, ask: () => Promise<T>) => {
    const before = pending.get(key) ?? 0;
    if (before >= most) return { at: "unavailable", why: "too many reviews at once" } as const;
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

/** Of one length, whatever a client sends; and no token stays in memory. */
function digestOf(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}

async function review(client: KubeClient, token: string): Promise<Known> {
  const answer = await client.create(TOKEN_REVIEWS, { metadata: { name: "" }, spec: { token } });
  if (!answer.ok) return { at: "unavailable", why: whyNot(answer.error) };
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
  if (!answer.ok) return { at: "unavailable", why: whyNot(answer.error) };
  return answer.value.status?.allowed === true
    ? { at: "allowed", user: username }
    : { at: "forbidden", user: username };
}

function whyNot({ kind, message }: ApiFailure): string {
  return kind === "forbidden"
    ? `this server may not ask who calls: ${message}`
    : `the API server: ${message}`;
}

/** One question at a time per key. A yes is kept long, a no shortly and in a small place of its own, anything else not at all. */
function createKept<T>(
  clock: Clock,
  limits: typeof LIMITS,
  { isYes, isNo }: { readonly isYes: (value: T) => boolean; readonly isNo: (value: T) => boolean },
) {
  const asking = new Map<string, Promise<T>>();
  const granted = createCache<T>(clock, limits.granted, KEPT_MS);
  const refused = createCache<T>(clock, limits.refused, REFUSED_MS);
  return (key: string, ask: () => Promise<T>): Promise<T> => {
    const known = granted.get(key) ?? refused.get(key);
    if (known !== undefined) return Promise.resolve(known);
    const pending = asking.get(key);
    if (pending !== undefined) return pending;
    const answer = ask()
      .then((value) => {
        if (isYes(value)) granted.set(key, value);
        else if (isNo(value)) refused.set(key, value);
        return value;
      })
      .finally(() => asking.delete(key));
    asking.set(key, answer);
    return answer;
  };
}

/** The oldest go first. */
function createCache<T>({ monotonicMs }: Clock, most: number, keptMs: number) {
  const kept = new Map<string, { readonly value: T; readonly untilMs: number }>();
  return {
    get: (key: string): T | undefined => {
      const found = kept.get(key);
      if (found !== undefined && monotonicMs() < found.untilMs) return found.value;
      kept.delete(key);
      return undefined;
    },
    set: (key: string, value: T): void => {
      if (kept.size >= most) kept.delete(kept.keys().next().value ?? "");
      kept.set(key, { value, untilMs: monotonicMs() + keptMs });
    },
  };
}
