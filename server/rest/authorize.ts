/** Who calls, and whether they may: asked of the API server for every call, with answers kept for seconds. */
import { createHash } from "node:crypto";
import { GROUP } from "../../src/api/group.ts";
import { SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS } from "../../src/kube/kinds.ts";
import type { UserInfo } from "../../src/kube/objects.ts";
import type { ApiFailure, KubeClient } from "../../src/kube/types.ts";
import type { Clock } from "../../src/ports.ts";

export type Verdict =
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

export type Authorize = (token: string, right: Right) => Promise<Verdict>;

export const RESOURCE = "density";

const KEPT_MS = 30_000;
/** A right that was just given must not take long. */
const REFUSED_MS = 3_000;
const MOST_KEPT = 4_096;
const MOST_PENDING = 128;

type Known =
  | { readonly at: "user"; readonly user: UserInfo & { readonly username: string } }
  | { readonly at: "stranger" }
  | { readonly at: "unavailable"; readonly why: string };

export function createAuthorize({
  client,
  clock,
}: {
  readonly client: KubeClient;
  readonly clock: Clock;
}): Authorize {
  let pending = 0;
  /** Bounded: whoever guesses tokens costs no more than this. */
  const asked = async <T extends { readonly at: string }>(ask: () => Promise<T>) => {
    if (pending >= MOST_PENDING) return { at: "unavailable", why: "too many reviews at once" } as const;
    pending += 1;
    try {
      return await ask();
    } finally {
      pending -= 1;
    }
  };
  const users = createKept<Known>(clock, ({ at }) =>
    at === "user" ? KEPT_MS : at === "stranger" ? REFUSED_MS : 0,
  );
  const verdicts = createKept<Verdict>(clock, ({ at }) =>
    at === "allowed" ? KEPT_MS : at === "forbidden" ? REFUSED_MS : 0,
  );
  return async (token, right) => {
    const known = await users(digestOf(token), () => asked(() => review(client, token)));
    if (known.at === "stranger") return { at: "unauthenticated" };
    if (known.at === "unavailable") return known;
    const question = digestOf(`${token} ${right.verb} ${right.part}`);
    return verdicts(question, () => asked(() => access(client, known.user, right)));
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
): Promise<Verdict> {
  const answer = await client.create(SUBJECT_ACCESS_REVIEWS, {
    metadata: { name: "" },
    spec: {
      user: username,
      ...(uid === undefined ? {} : { uid }),
      ...(groups === undefined ? {} : { groups }),
      ...(extra === undefined ? {} : { extra }),
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

/** One question at a time per key, and its answer for as long as `keptMs` says; the oldest go first. */
function createKept<T>(clock: Clock, keptMs: (value: T) => number) {
  const kept = new Map<string, { readonly value: Promise<T>; untilMs: number }>();
  return (key: string, ask: () => Promise<T>): Promise<T> => {
    const found = kept.get(key);
    if (found !== undefined && clock.monotonicMs() < found.untilMs) return found.value;
    kept.delete(key);
    if (kept.size >= MOST_KEPT) kept.delete(kept.keys().next().value ?? "");
    const entry = { value: ask(), untilMs: Number.POSITIVE_INFINITY };
    kept.set(key, entry);
    void entry.value.then(
      (value) => {
        entry.untilMs = clock.monotonicMs() + keptMs(value);
      },
      () => {
        entry.untilMs = 0;
      },
    );
    return entry.value;
  };
}
