/** The settings that llama-server honors, on hosts and in pods alike: what each is called on the command lines. */
import type { EngineSettings, engineFields, SpeedSetting } from "../../api/engine-settings.ts";

interface LlamacppSetting {
  /** Flags that the setting determines, by their long names; extraArgs must not have them. */
  readonly flags?: string;
  /** The flag, which takes the value, or stands alone for true. Absent: argv.ts renders the setting together with others. */
  readonly argument?: string;
  /**
   * How llama-bench gets a setting that changes the speed: by this flag, of which older builds have no long names, or combined with
   * others by bench.ts.
   */
  readonly bench?: `-${string}` | "combined";
}

/** A new setting is a field in `src/api/engine-settings.ts` and a row here. The order is that of the arguments. */
const LLAMACPP_FIELDS = {
  contextSize: { flags: "--ctx-size" },
  parallelSlots: { flags: "--parallel" },
  kvUnified: { flags: "--kv-unified" },
  ropeScaling: { flags: "--rope-scaling --rope-scale --yarn-orig-ctx" },
  flashAttention: { flags: "--flash-attn", bench: "-fa" },
  jinja: { flags: "--jinja --no-jinja" },
  chatTemplate: { flags: "--chat-template-file" },
  pooling: { flags: "--pooling" },
  slotSaveRestore: { flags: "--slot-save-path" },
  cacheTypeK: { flags: "--cache-type-k", bench: "-ctk" },
  cacheTypeV: { flags: "--cache-type-v", bench: "-ctv" },
  cacheTypeCustomK: {},
  cacheTypeCustomV: {},
  batchSize: { flags: "--batch-size", argument: "--batch-size", bench: "-b" },
  uBatchSize: { flags: "--ubatch-size", argument: "--ubatch-size", bench: "-ub" },
  promptCacheMiB: { flags: "--cache-ram" },
  gpuLayers: { flags: "--n-gpu-layers", bench: "-ngl" },
  moeCPUOffload: { flags: "--cpu-moe", argument: "--cpu-moe", bench: "combined" },
  moeCPULayers: { flags: "--n-cpu-moe", argument: "--n-cpu-moe", bench: "-ncmoe" },
  noKvOffload: { flags: "--kv-offload --no-kv-offload", argument: "--no-kv-offload", bench: "-nkvo" },
  noWarmup: { flags: "--warmup --no-warmup", argument: "--no-warmup" },
  reasoningBudget: { flags: "--reasoning-budget" },
  reasoningBudgetMessage: { flags: "--reasoning-budget-message" },
  metadataOverrides: { flags: "--override-kv" },
  tensorOverrides: { flags: "--override-tensor" },
  extraArgs: {},
} as const satisfies Partial<
  Record<keyof typeof engineFields, LlamacppSetting> &
    Record<SpeedSetting, Required<Pick<LlamacppSetting, "bench">>>
>;

type Field = keyof typeof LLAMACPP_FIELDS;

/** The rows, with their fields in the order above. */
export const LLAMACPP_ROWS = Object.entries(LLAMACPP_FIELDS) as readonly (readonly [
  Field,
  LlamacppSetting,
])[];

/** Settings that are an argument each, with their values. Experts of 0 layers are those of a build without the flag. */
export function plainArguments(
  settings: Partial<EngineSettings>,
): readonly (readonly [field: Field, argument: string, ...value: string[]])[] {
  return LLAMACPP_ROWS.flatMap(([field, { argument }]) => {
    const value = settings[field];
    if (argument === undefined || value === undefined || value === false) return [];
    if (field === "moeCPULayers" && value === 0) return [];
    return [value === true ? [field, argument] : [field, argument, String(value)]];
  });
}

/** Fields of InferenceService.spec that llama-server honors. */
export const LLAMACPP_SETTINGS = [
  ...(Object.keys(LLAMACPP_FIELDS) as Field[]),
  ...([
    "speculativeDecoding",
    "loraAdapters",
    "modelRefs.draft",
    "modelRefs.lora",
    "modelRefs.projector",
  ] as const),
] as const;
