/** oMLX's inference routes. */
import { type InferenceRoute, OPENAI_ROUTES } from "../inference-routes.ts";

export const OMLX_ROUTES: readonly InferenceRoute[] = OPENAI_ROUTES;
