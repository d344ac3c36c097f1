/** Routes that the gate allows, by the API of the shared server. In a separate file, because the gate loads no other part of the engines. */
import type { InferenceRoute } from "./contract/inference-routes.ts";
import { OLLAMA_ROUTES } from "./ollama/routes.ts";
import { OMLX_ROUTES } from "./omlx/routes.ts";

export const GATED_ROUTES: Readonly<Record<"openai" | "ollama", readonly InferenceRoute[]>> = {
  openai: OMLX_ROUTES,
  ollama: OLLAMA_ROUTES,
};
