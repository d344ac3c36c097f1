/** Users of Kubernetes, by their tokens: who they are, and which services they may use. */
import { GROUP } from "../../src/api/group.ts";
import type { KeyLimits, UsableService } from "../../src/gateway/key.ts";
import { createReviews, type KnownUser, type Reviews } from "../../src/kube/review/reviews.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { Authenticated, UseResult } from "./authentication.ts";

export type UserAnswer =
  | { readonly at: "user"; readonly caller: Authenticated }
  | { readonly at: "stranger" }
  | { readonly at: "unavailable"; readonly why: string };

export type IdentifyUser = (token: string) => Promise<UserAnswer>;

/** `use` on `inferenceservices/use`, which exists only as a name for RBAC. */
const RIGHT = { group: GROUP, resource: "inferenceservices", subresource: "use", verb: "use" } as const;
/** Ids of users have it; a key's id is the name of a Secret, which contains no colon. */
const ID_PREFIX = "user:";
/** A user lists models by one review per service. */
const REFUSED_RIGHTS = 4_096;

/** Every user has the `limits`. */
export function createUsers({
  client,
  clock,
  limits,
}: {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly limits: KeyLimits;
}): IdentifyUser {
  // The gateway knows no trustworthy address of the client, so all clients share the limit of reviews.
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

/** The widest right first: it answers for all services, so that a list of models needs few reviews. */
async function mayUse(
  { mayAccess }: Reviews,
  token: string,
  user: KnownUser,
  { namespace, name }: UsableService,
): Promise<UseResult> {
  for (const place of [{}, { namespace }, { namespace, name }]) {
    const { at } = await mayAccess(token, user, { ...RIGHT, ...place });
    if (at !== "forbidden") return at;
  }
  return "forbidden";
}
