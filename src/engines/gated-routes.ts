/** What the gate passes, by the API that a shared server speaks. Of its own file: the gate loads nothing else of the engines. */
import type { InferenceRoute } from "./inference-routes.ts";
import { OLLAMA_ROUTES } from "./ollama/routes.ts";
import { OMLX_ROUTES } from "./omlx/routes.ts";

export const GATED_ROUTES: Readonly<Record<"openai" | "ollama", readonly InferenceRoute[]>> = {
  openai: OMLX_ROUTES,
  ollama: OLLAMA_ROUTES,
};
