/** Lets the API server review the token of each request; only tokens that were issued for this host are accepted. */
import { remoteAudience } from "../../src/api/access/remote.ts";
import { TOKEN_REVIEWS } from "../../src/kube/kinds.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import type { Clock } from "../../src/util/ports.ts";

/** `unknown`: the review failed, and the request is rejected. */
export type Requester =
  | { readonly at: "account"; readonly namespace: string; readonly name: string }
  | { readonly at: "stranger" }
  | { readonly at: "unknown"; readonly why: string };

export type AuthorizeToken = (token: string) => Promise<Requester>;

export interface AuthorizeOptions {
  readonly hostName: string;
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly limits?: typeof REVIEW_LIMITS;
}

/** Limits the load on the API server when someone guesses tokens. */
export const REVIEW_LIMITS = { atOnce: 4, burst: 20, perSecond: 1 };
const ACCOUNT = /^system:serviceaccount:([^:]+):([^:]+)$/;
const BUSY: Requester = {
  at: "unknown",
  why: "too many tokens are being reviewed: try again in a few seconds",
};

/** Reviews are not cached: a revoked token is refused at once. */
export function createTokenAuthorizer({
  hostName,
  client,
  clock,
  limits = REVIEW_LIMITS,
}: AuthorizeOptions): AuthorizeToken {
  const audience = remoteAudience(hostName);
  const { atOnce, burst, perSecond } = limits;
  let reviews = 0;
  let allowance = burst;
  let updatedMs = clock.monotonicMs();
  return async (token) => {
    const nowMs = clock.monotonicMs();
    allowance = Math.min(burst, allowance + ((nowMs - updatedMs) / 1_000) * perSecond);
    updatedMs = nowMs;
    if (allowance < 1 || reviews >= atOnce) return BUSY;
    allowance -= 1;
    reviews += 1;
    try {
      return await review(client, token, audience);
    } finally {
      reviews -= 1;
    }
  };
}

async function review(client: KubeClient, token: string, audience: string): Promise<Requester> {
  const spec = { token, audiences: [audience] };
  const answer = await client.create(TOKEN_REVIEWS, { metadata: { name: "" }, spec });
  if (!answer.ok) {
    const { kind, message } = answer.error;
    const why =
      kind === "forbidden"
        ? "the cluster does not let hosts review tokens (remoteAccess.enabled of the chart)"
        : message;
    return { at: "unknown", why };
  }
  const { authenticated, user, audiences = [] } = answer.value.status ?? {};
  // An authenticator without support for audiences returns none: its tokens may have been issued for other servers.
  if (authenticated !== true || !audiences.includes(audience)) return { at: "stranger" };
  const [, namespace, name] = ACCOUNT.exec(user?.username ?? "") ?? [];
  return namespace === undefined || name === undefined
    ? { at: "stranger" }
    : { at: "account", namespace, name };
}
