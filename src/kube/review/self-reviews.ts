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
  const answer = await createClient(connection).create(SELF_REVIEWS, { metadata: { name: "" } });
  return answer.ok ? { ok: true, value: answer.value.status?.userInfo ?? {} } : answer;
}

async function review(connection: KubeConnection, resourceAttributes: ReviewedAccess): Promise<SelfVerdict> {
  const body: AccessReview = { metadata: { name: "" }, spec: { resourceAttributes } };
  const answer = await createClient(connection).create(ACCESS_REVIEWS, body);
  if (!answer.ok) return { at: "failed", failure: answer.error };
  return { at: answer.value.status?.allowed === true ? "allowed" : "forbidden" };
}
