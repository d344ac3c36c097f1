/**
 * Which flags of llama-server `extraArgs` may hold: none that reads or writes files, opens ports or downloads. Those that
 * change the memory need are `uncountedArgs` of the claim.
 */

/** Canonical long names; other spellings of the same flag are found in the build's own help. */
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
    .split(/\s+/),
);

/** Flags that Metalbridge sets itself, by the field that decides them; "" where no field does. */
export const TYPED_FLAGS: Readonly<Record<string, string>> = {
  "--model": "modelRef",
  "--model-url": "modelRef",
  "--hf-repo": "modelRef",
  "--hf-file": "modelRef",
  "--docker-repo": "modelRef",
  "--mmproj": "the Model's mmproj",
  "--lora": "loraAdapters",
  "--lora-scaled": "loraAdapters",
  "--alias": "",
  "--host": "",
  "--port": "",
  "--metrics": "",
  "--offline": "",
  "--ui": "",
  "--no-ui": "",
  "--no-webui": "",
  "--api-key": "auth",
  "--api-key-file": "auth",
  "--ctx-size": "contextSize",
  "--parallel": "parallelSlots",
  "--kv-unified": "kvUnified",
  "--fit": "",
  "--cache-ram": "promptCacheMiB",
  "--batch-size": "batchSize",
  "--ubatch-size": "uBatchSize",
  "--rope-scaling": "ropeScaling",
  "--rope-scale": "ropeScaling",
  "--yarn-orig-ctx": "ropeScaling",
  "--cache-type-k": "cacheTypeK",
  "--cache-type-v": "cacheTypeV",
  "--flash-attn": "flashAttention",
  "--kv-offload": "noKvOffload",
  "--no-kv-offload": "noKvOffload",
  "--n-gpu-layers": "gpuLayers",
  "--cpu-moe": "moeCPUOffload",
  "--n-cpu-moe": "moeCPULayers",
  "--override-tensor": "tensorOverrides",
  "--override-kv": "metadataOverrides",
  "--warmup": "noWarmup",
  "--no-warmup": "noWarmup",
  "--embedding": "mode",
  "--rerank": "mode",
  "--pooling": "pooling",
  "--chat-template-file": "chatTemplate",
  "--slot-save-path": "slotSaveRestore",
  "--jinja": "jinja",
  "--no-jinja": "jinja",
  "--reasoning-budget": "reasoningBudget",
  "--reasoning-budget-message": "reasoningBudgetMessage",
  "--spec-type": "speculativeDecoding",
  "--spec-draft-model": "speculativeDecoding",
  "--model-draft": "speculativeDecoding",
  "--spec-draft-n-max": "speculativeDecoding",
  "--draft-max": "speculativeDecoding",
  "--spec-ngram-simple-size-m": "speculativeDecoding",
  "--spec-ngram-map-k-size-m": "speculativeDecoding",
  "--spec-ngram-map-k4v-size-m": "speculativeDecoding",
  "--spec-ngram-mod-n-max": "speculativeDecoding",
  "--spec-draft-p-min": "speculativeDecoding",
  "--draft-p-min": "speculativeDecoding",
  "--spec-draft-ngl": "speculativeDecoding",
  "--n-gpu-layers-draft": "speculativeDecoding",
};

/** What to write instead of flags that builds have dropped. */
export const REPLACED_FLAGS: Readonly<Record<string, string>> = {
  "--mlock": "--load-mode mlock",
  "--mmap": "--load-mode mmap",
  "--no-mmap": "--load-mode none",
};
