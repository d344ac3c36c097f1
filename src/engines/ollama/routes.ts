/** Ollama's inference routes. */
import { type InferenceRoute, OPENAI_ROUTES } from "../contract/inference-routes.ts";

export const OLLAMA_ROUTES: readonly InferenceRoute[] = [
  ...OPENAI_ROUTES,
  { path: "/v1/responses", kind: "json", since: "0.13.3" },
  { path: "/v1/messages", kind: "json", since: "0.14.0" },
  { path: "/api/chat", kind: "json" },
  { path: "/api/generate", kind: "json" },
  { path: "/api/embed", kind: "json" },
  // Used by older clients.
  { path: "/api/embeddings", kind: "json" },
  // Older clients name the model by `name` there.
  { path: "/api/show", kind: "json", nameKeys: ["model", "name"] },
  { path: "/api/tags", kind: "list" },
  { path: "/api/ps", kind: "list" },
];
