/** Routes of a shared server's API that clients may use: each engine lists its own, with the version that has them first. */

export interface InferenceRoute {
  readonly path: string;
  /** json: a POST whose body names the model. list: a GET whose answer is narrowed to the model. */
  readonly kind: "json" | "list";
  /** Members of the body that name the model; absent: `model`. */
  readonly nameKeys?: readonly string[];
  /** Absent: all versions that the agent drives have it. */
  readonly since?: string;
}

/** What servers with OpenAI's API have in common. */
export const OPENAI_ROUTES: readonly InferenceRoute[] = [
  { path: "/v1/models", kind: "list" },
  { path: "/v1/chat/completions", kind: "json" },
  { path: "/v1/completions", kind: "json" },
  { path: "/v1/embeddings", kind: "json" },
  { path: "/v1/responses", kind: "json" },
  { path: "/v1/rerank", kind: "json" },
];
