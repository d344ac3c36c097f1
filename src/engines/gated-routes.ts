/** What the gate passes, by the API that a shared server speaks. A file of its own: the gate loads nothing else of the engines. */
import { type InferenceRoute, OPENAI_ROUTES } from "./contract/inference-routes.ts";
import { OLLAMA_ROUTES } from "./ollama/routes.ts";

export const GATED_ROUTES: Readonly<Record<"openai" | "ollama", readonly InferenceRoute[]>> = {
  openai: OPENAI_ROUTES,
  ollama: OLLAMA_ROUTES,
};
