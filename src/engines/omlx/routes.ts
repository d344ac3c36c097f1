/** oMLX's inference routes. */
import { type InferenceRoute, OPENAI_ROUTES } from "../contract/inference-routes.ts";

export const OMLX_ROUTES: readonly InferenceRoute[] = [
  ...OPENAI_ROUTES,
  { path: "/v1/responses", kind: "json" },
  { path: "/v1/rerank", kind: "json" },
  { path: "/v1/messages", kind: "json" },
  { path: "/v1/messages/count_tokens", kind: "json" },
];
