/** Routes of a shared server's API that clients may use. Each engine lists its routes with the first version that has them. */

export interface InferenceRoute {
  readonly path: string;
  /** json: a POST whose body names the model. list: a GET whose response is restricted to the model. */
  readonly kind: "json" | "list";
  /** Members of the body that name the model. Defaults to `model`. */
  readonly nameKeys?: readonly string[];
  /** First version with the route; absent if all supported versions have it. */
  readonly since?: string;
}

/** Paths of GET that list models. */
export const LIST_PATHS: ReadonlySet<string> = new Set(["/v1/models", "/api/tags", "/api/ps"]);

/** Routes of all servers with OpenAI's API. */
export const OPENAI_ROUTES: readonly InferenceRoute[] = [
  { path: "/v1/models", kind: "list" },
  { path: "/v1/chat/completions", kind: "json" },
  { path: "/v1/completions", kind: "json" },
  { path: "/v1/embeddings", kind: "json" },
];
