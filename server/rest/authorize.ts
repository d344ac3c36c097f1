/** Authenticates and authorizes calls by reviews of the API server. */

import { GROUP } from "../../src/api/group.ts";
import { createReviews, type ReviewLimits } from "../../src/kube/review/reviews.ts";
import type { KubeClient } from "../../src/kube/types.ts";
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

export function createRestAuthorizer(ports: {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly limits?: Partial<ReviewLimits>;
}): AuthorizeRequest {
  const { identify, mayAccess } = createReviews(ports);
  return async (token, { verb, part }, address) => {
    const known = await identify(token, address);
    if (known.at === "stranger") return { at: "unauthenticated" };
    if (known.at === "unavailable") return known;
    const access = accessOf({ verb, part });
    const verdict = await mayAccess(token, known.user, access);
    return verdict.at === "unavailable" ? verdict : { at: verdict.at, user: known.user.username };
  };
}

/** The right as the API server reviews it. */
export function accessOf({ verb, part }: Right) {
  return { group: GROUP, resource: RESOURCE, subresource: part, verb };
}
