/** Identity and rights of a credential, reviewed with that credential itself; rights are cached for seconds. */
import type { Clock } from "../../util/ports.ts";
import type { KubeConnection } from "../client/connect.ts";
import { createClient } from "../client/create-client.ts";
import { ACCESS_REVIEWS, SELF_REVIEWS } from "../kinds.ts";
import type { AccessReview, UserInfo } from "../objects.ts";
import type { ApiFailure, ApiResult } from "../types.ts";
import { createReviewCache, REVIEW_LIMITS, type ReviewedAccess, reviewKeyOf } from "./reviews.ts";

export type SelfVerdict =
  | { readonly at: "allowed" }
  | { readonly at: "forbidden" }
  | { readonly at: "failed"; readonly failure: ApiFailure };

/** `cacheKey` identifies the credential of the connection. */
export type ReviewOwnAccess = (
  connection: KubeConnection,
  cacheKey: string,
  access: ReviewedAccess,
) => Promise<SelfVerdict>;

export function createSelfReviews(clock: Clock): ReviewOwnAccess {
  const verdicts = createReviewCache<SelfVerdict>(clock, REVIEW_LIMITS, {
    isYes: ({ at }) => at === "allowed",
    isNo: ({ at }) => at === "forbidden",
  });
  return (connection, cacheKey, access) =>
    verdicts(reviewKeyOf(JSON.stringify([cacheKey, access])), () => review(connection, access));
}

/** The account of the connection's credential. */
export async function identifySelf(connection: KubeConnection): Promise<ApiResult<UserInfo>> {
  const response = await createClient(connection).create(SELF_REVIEWS, { metadata: { name: "" } });
  return response.ok ? { ok: true, value: response.value.status?.userInfo ?? {} } : response;
}

async function review(connection: KubeConnection, resourceAttributes: ReviewedAccess): Promise<SelfVerdict> {
  const body: AccessReview = { metadata: { name: "" }, spec: { resourceAttributes } };
  const response = await createClient(connection).create(ACCESS_REVIEWS, body);
  if (!response.ok) return { at: "failed", failure: response.error };
  return { at: response.value.status?.allowed === true ? "allowed" : "forbidden" };
}
