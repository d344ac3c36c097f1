/**
 * Flags of llama-server that `extraArgs` may contain: none that reads or writes files, opens ports or downloads. Flags that
 * change the memory are listed in `uncountedArgs` of the claim.
 */
import { LLAMACPP_ROWS } from "./settings.ts";

/** Flags that Metalbridge sets itself, by the field that determines them; "" if no field does. */
const FLAGS_BY_FIELD: Readonly<Record<string, string>> = {
  modelRef: "--model --model-url --hf-repo --hf-file --docker-repo",
  "the Model's mmproj": "--mmproj",
  loraAdapters: "--lora --lora-scaled",
  "": "--alias --host --port --metrics --offline --ui --no-ui --no-webui --fit",
  auth: "--api-key --api-key-file",
  mode: "--embedding --rerank",
  speculativeDecoding:
    "--spec-type --spec-draft-model --model-draft --spec-draft-n-max --draft-max --spec-ngram-simple-size-m --spec-ngram-map-k-size-m --spec-ngram-map-k4v-size-m --spec-ngram-mod-n-max --spec-draft-p-min --draft-p-min --spec-draft-ngl --n-gpu-layers-draft",
  ...Object.fromEntries(LLAMACPP_ROWS.flatMap(([field, { flags }]) => (flags ? [[field, flags]] : []))),
};

/** The field of each flag that Metalbridge sets itself. */
export const TYPED_FLAGS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(FLAGS_BY_FIELD).flatMap(([field, flags]) => flags.split(" ").map((flag) => [flag, field])),
);

/** Canonical long names without those that a setting determines; other spellings of a flag are found in the help of the build. */
export const ALLOWED_FLAGS: ReadonlySet<string> = new Set(
  `
  --threads --threads-batch --cpu-mask --cpu-range --cpu-strict --prio --poll
  --cpu-mask-batch --cpu-range-batch --cpu-strict-batch --prio-batch --poll-batch --numa
  --predict --keep --escape --perf --special --reverse-prompt --ignore-eos
  --rope-freq-base --rope-freq-scale --yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast
  --context-shift --no-context-shift --checkpoint-min-step --cache-idle-slots --cache-prompt --cache-reuse
  --load-mode --mlock --mmap --no-mmap --lazy-mode --repack --no-host --check-tensors --op-offload
  --device --split-mode --tensor-split --main-gpu --n-cpu-ffn
  --mmproj-offload --no-mmproj-offload --mmproj-device --image-min-tokens --image-max-tokens
  --mtmd-batch-max-tokens --video-fps --video-timestamp-interval
  --samplers --seed --sampler-seq --temp --top-k --top-p --min-p --top-nsigma --xtc-probability --xtc-threshold
  --typical --repeat-last-n --repeat-penalty --presence-penalty --frequency-penalty
  --dry-multiplier --dry-base --dry-allowed-length --dry-penalty-last-n --dry-sequence-breaker
  --adaptive-target --adaptive-decay --dynatemp-range --dynatemp-exp --mirostat --mirostat-lr --mirostat-ent
  --logit-bias --grammar --json-schema --backend-sampling
  --chat-template --chat-template-kwargs --skip-chat-parsing --prefill-assistant --spm-infill
  --reasoning-format --reasoning --reasoning-effort --reasoning-preserve
  --embd-normalize --cont-batching --no-cont-batching --slot-prompt-similarity
  --timeout --threads-http --sse-ping-interval --slots --no-slots --tags
  --cors-origins --cors-methods --cors-headers --cors-credentials
  --verbose --verbosity --log-prefix --log-timestamps --log-colors
  --spec-draft-threads --spec-draft-threads-batch --spec-draft-n-min --spec-draft-p-split --spec-draft-device
  --spec-draft-sampling --spec-draft-backend-sampling --spec-draft-cpu-moe --spec-draft-n-cpu-moe
  --spec-ngram-mod-n-min --spec-ngram-mod-n-match
  --spec-ngram-simple-size-n --spec-ngram-simple-min-hits
  --spec-ngram-map-k-size-n --spec-ngram-map-k-min-hits
  --spec-ngram-map-k4v-size-n --spec-ngram-map-k4v-min-hits
  --threads-draft --threads-batch-draft --draft-min
  `
    .trim()
    .split(/\s+/)
    .filter((flag) => !Object.hasOwn(TYPED_FLAGS, flag)),
);

/** Replacements for removed flags. */
export const REPLACED_FLAGS: Readonly<Record<string, string>> = {
  "--mlock": "--load-mode mlock",
  "--mmap": "--load-mode mmap",
  "--no-mmap": "--load-mode none",
};
