/** Repositories of Hugging Face, or of a mirror with its API. */
import type { SourceEndpoints, SourceKind } from "./kind.ts";
import { parseRepository, type RepositorySource, repositoryKind } from "./repository.ts";

type HuggingFaceSource = RepositorySource<"hf">;

const FORM = "org/repo[/file.gguf][@revision]";

export const HUGGING_FACE = {
  ...repositoryKind("hf", `hf://${FORM}`, "main"),
  form: "hf://org/repo",
  fullForm: "hf://org/repo[/file][@revision] (or a bare org/repo)",
  origin: (_: HuggingFaceSource, { hfEndpoint }: SourceEndpoints) => hfEndpoint,
} satisfies SourceKind<HuggingFaceSource>;

/** `org/repo`, without a scheme. Throws InvalidSource. */
export function parseBareRepository(text: string): HuggingFaceSource {
  return parseRepository(text, { kind: "hf", form: FORM, defaultRevision: "main" });
}
