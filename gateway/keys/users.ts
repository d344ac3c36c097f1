/** Kubernetes users, identified by token, and the services that they may use. */
import { GROUP } from "../../src/api/group.ts";
import type { KeyLimits, UsableService } from "../../src/gateway/key.ts";
import { createReviews, type KnownUser, type Reviews } from "../../src/kube/review/reviews.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { Authenticated, UseResult } from "./authentication.ts";

export type UserLookup =
  | { readonly at: "user"; readonly caller: Authenticated }
  | { readonly at: "stranger" }
  | { readonly at: "unavailable"; readonly why: string };

export type IdentifyUser = (token: string) => Promise<UserLookup>;

/** `use` on `inferenceservices/use`, which exists only as a name for RBAC. */
const RIGHT = { group: GROUP, resource: "inferenceservices", subresource: "use", verb: "use" } as const;
/** Distinguishes ids of users from ids of keys, which are names of Secrets and contain no colon. */
const ID_PREFIX = "user:";
/** The list of models needs one review per service. */
const REFUSED_RIGHTS = 4_096;

/** The `limits` apply to each user. */
export function createUsers({
  client,
  clock,
  limits,
}: {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly limits: KeyLimits;
}): IdentifyUser {
  // No address of a client is trustworthy here, so all clients share the limit of reviews.
  const bounds = { refused: REFUSED_RIGHTS, pendingOfAddress: Number.POSITIVE_INFINITY };
  const reviews = createReviews({ client, clock, limits: bounds });
  return async (token) => {
    const known = await reviews.identify(token, "");
    if (known.at !== "user") return known;
    const { username } = known.user;
    const caller: Authenticated = {
      id: `${ID_PREFIX}${username}`,
      owner: username,
      priority: "normal",
      weight: 1,
      limits,
      mayUse: (service) => mayUse(reviews, token, known.user, service),
    };
    return { at: "user", caller };
  };
}

/** The widest right first: it covers all services, so the list of models needs few reviews. */
async function mayUse(
  { mayAccess }: Reviews,
  token: string,
  user: KnownUser,
  { namespace, name }: UsableService,
): Promise<UseResult> {
  for (const scope of [{}, { namespace }, { namespace, name }]) {
    const { at } = await mayAccess(token, user, { ...RIGHT, ...scope });
    if (at !== "forbidden") return at;
  }
  return "forbidden";
}
