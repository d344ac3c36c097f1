/** Options of `fit` and `gguf` for the settings that determine the memory of an engine. */
import { type Command, Option } from "commander";
import type { EngineSettings, MemorySetting } from "../../src/api/engine-settings.ts";
import { CACHE_TYPES } from "../../src/engines/llamacpp/claim/kv-cache.ts";
import { countParser } from "../cluster/flags.ts";

interface SizingOption {
  readonly field: MemorySetting;
  readonly option: Option;
  /** The value of the engine itself. */
  readonly engineDefault?: string | number;
}

const count = (flags: string, what: string, least = 1) =>
  new Option(flags, what).argParser(countParser(least));
const cacheType = (flags: string, what: string) =>
  new Option(`${flags} <type>`, what).choices([...CACHE_TYPES]);

const options = (): readonly SizingOption[] => [
  {
    field: "contextSize",
    option: count("-c, --context <tokens>", "context size of the engine, shared by all slots"),
    engineDefault: 4096,
  },
  {
    field: "parallelSlots",
    option: count("-s, --slots <count>", "number of concurrent requests"),
    engineDefault: 1,
  },
  { field: "kvUnified", option: new Option("--unified-kv", "share one KV cache between all slots") },
  {
    field: "cacheTypeCustomK",
    option: cacheType("--cache-type-k", "element type of the keys in the KV cache"),
    engineDefault: "f16",
  },
  {
    field: "cacheTypeCustomV",
    option: cacheType("--cache-type-v", "element type of the values in the KV cache"),
    engineDefault: "f16",
  },
  {
    field: "promptCacheMiB",
    option: count("--prompt-cache <MiB>", "memory for cached prompts of earlier requests", 0),
    engineDefault: 1024,
  },
  {
    field: "batchSize",
    option: count("--batch <tokens>", "logical batch size, in prompt tokens"),
    engineDefault: 2048,
  },
  {
    field: "uBatchSize",
    option: count("--ubatch <tokens>", "physical batch size, in prompt tokens"),
    engineDefault: 512,
  },
  {
    field: "flashAttention",
    option: new Option("--flash-attention <on|off>", "flash attention").choices(["on", "off"]),
    engineDefault: "on",
  },
];

/** Adds an option for each setting; `withDefaults`: with the engine's own values where none is given. */
export function addSizingOptions(command: Command, { withDefaults = false } = {}): Command {
  for (const { option, engineDefault } of options())
    command.addOption(withDefaults && engineDefault !== undefined ? option.default(engineDefault) : option);
  return command;
}

/** The fields of the given options. */
export function sizingOf(given: object): Partial<Pick<EngineSettings, MemorySetting>> {
  const values: Readonly<Record<string, unknown>> = { ...given };
  return Object.fromEntries(
    options().flatMap(({ field, option }) => {
      const value = values[option.attributeName()];
      if (value === undefined) return [];
      return [[field, field === "flashAttention" ? value === "on" : value]];
    }),
  );
}
