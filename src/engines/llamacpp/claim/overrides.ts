/** Applies metadataOverrides to the claim, because llama-server sizes its buffers by the overridden values. */
import type { GgufSummary } from "../../../models/gguf/summary.ts";

type Change = (value: number, summary: GgufSummary) => Partial<GgufSummary>;

const sizing =
  (change: object): Change =>
  (_, summary) => ({ sizing: { ...summary.sizing, ...change } });

/** Changes by key without the prefix of the architecture. */
const CHANGES: Readonly<Record<string, Change>> = {
  context_length: (contextLength) => ({ contextLength }),
  embedding_length: (embeddingSize) => ({ embeddingSize }),
  feed_forward_length: (feedForwardLength) => ({ feedForwardLength }),
  vocab_size: (vocabularySize) => ({ vocabularySize }),
  "attention.head_count": (headCount) => ({ headCount }),
  "attention.head_count_kv": (headCountKV, summary) => ({
    headCountKV,
    ...sizing({ headCountKVByLayer: undefined })(headCountKV, summary),
  }),
  "attention.key_length": (keyLength) => ({ keyLength }),
  "attention.value_length": (valueLength) => ({ valueLength }),
  "attention.sliding_window": (window) => ({ slidingWindow: window === 0 ? undefined : window }),
  expert_used_count: (expertsUsed, summary) => sizing({ expertsUsed })(expertsUsed, summary),
};

/** Overrides have the form `key=int:value` of `--override-kv`. Those that do not affect sizes are ignored. */
export function withOverrides(summary: GgufSummary, overrides: readonly string[] = []): GgufSummary {
  let changed = summary;
  for (const override of overrides) {
    const match = /^([^=]+)=int:(\d{1,9})$/.exec(override);
    const prefix = `${summary.architecture ?? ""}.`;
    const key = match?.[1]?.startsWith(prefix) === true ? match[1].slice(prefix.length) : "";
    const change = CHANGES[key];
    if (change !== undefined) changed = { ...changed, ...change(Number(match?.[2]), changed) };
  }
  return changed;
}
