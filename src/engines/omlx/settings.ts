/** Settings of a service in oMLX: some apply to a model, the others to the server. Pure. */
import type { EngineSettings } from "../../api/engine-settings.ts";
import { MetalbridgeError } from "../../api/errors.ts";
import type { EngineArguments } from "../contract/arguments.ts";
import { contextOfRequest, ownModelName, serverNameOf } from "../contract/shared-daemon.ts";

/** Fields of InferenceService.spec that oMLX honors; SpecHonored lists the others. */
export const OMLX_SETTINGS = [
  "contextSize",
  "parallelSlots",
  "turboQuantBits",
  "pagedSSDCacheDir",
  "hotCacheMaxSize",
  "pagedSSDCacheMaxSize",
  "extraArgs",
] as const satisfies readonly (keyof EngineSettings)[];

/** Flags that settings cover. */
export const OMLX_ARGUMENTS: EngineArguments = {
  settings: {
    "--max-concurrent-requests": { setting: "parallelSlots" },
    "--paged-ssd-cache-dir": { setting: "pagedSSDCacheDir" },
    "--paged-ssd-cache-max-size": { setting: "pagedSSDCacheMaxSize" },
    "--hot-cache-max-size": { setting: "hotCacheMaxSize" },
  },
  isAllowList: true,
};

/** Flags that `extraArgs` may contain: none that reads or writes files, opens ports, downloads, or uses much memory. */
const ALLOWED_FLAGS = ["--embedding-batch-size", "--sse-keepalive-mode", "--hot-cache-write-through"];

const SIZE = /^(\d{1,9}(?:\.\d{1,3})?) ?([KMGT]?)i?B?$/i;
const POWERS: Readonly<Record<string, number>> = { "": 0, K: 1, M: 2, G: 3, T: 4 };

export interface OmlxSettings {
  /** Settings of a model in model_settings.json, which oMLX reads when it loads the model. */
  readonly model: Readonly<Record<string, string | number | boolean | null>>;
  /** Flags of the server, for all its models. */
  readonly flags: readonly string[];
}

/** Throws MetalbridgeError for unsupported settings that must not be ignored. */
export function omlxSettings(
  settings: EngineSettings,
  trained: { readonly contextLength?: number | undefined } = {},
): OmlxSettings {
  const { parallelSlots = 1, turboQuantBits: bits, extraArgs = [] } = settings;
  refuseArguments(extraArgs);
  return {
    model: {
      // Never evicted, neither for another model nor when idle.
      is_pinned: true,
      ttl_seconds: null,
      max_context_window: contextOfRequest(settings, trained),
      ...(bits === undefined ? {} : { turboquant_kv_enabled: true, turboquant_kv_bits: bits }),
    },
    flags: ["--max-concurrent-requests", String(parallelSlots), ...cacheFlags(settings), ...extraArgs],
  };
}

/** Services with different server flags get separate servers. */
export function serverName({ flags }: OmlxSettings): string {
  return serverNameOf("omlx", flags);
}

/** Name of the model in oMLX, which is unique; `weights` identifies the files. */
export function modelName(weights: string, { model }: OmlxSettings): string {
  return ownModelName([weights, model]);
}

/** Memory for KV blocks of earlier requests, in bytes. Throws MetalbridgeError for an invalid size. */
export function hotCacheBytes({ hotCacheMaxSize }: EngineSettings): number {
  return hotCacheMaxSize === undefined ? 0 : bytesIn("hotCacheMaxSize", hotCacheMaxSize);
}

/** Without cache settings the cache is disabled, because by default it would fill 100 GB of the disk. */
function cacheFlags(settings: EngineSettings): string[] {
  const { pagedSSDCacheDir: folder, pagedSSDCacheMaxSize: disk, hotCacheMaxSize: memory } = settings;
  const flags = [
    ...(folder === undefined ? [] : ["--paged-ssd-cache-dir", folder]),
    ...sizeFlag("pagedSSDCacheMaxSize", "--paged-ssd-cache-max-size", disk),
    ...sizeFlag("hotCacheMaxSize", "--hot-cache-max-size", memory),
  ];
  return flags.length === 0 ? ["--no-cache"] : flags;
}

function sizeFlag(field: string, flag: string, size: string | undefined): string[] {
  if (size === undefined) return [];
  bytesIn(field, size);
  return [flag, size];
}

function bytesIn(field: string, size: string): number {
  const [, digits, unit = ""] = SIZE.exec(size) ?? [];
  if (digits !== undefined) return Math.ceil(Number(digits) * 1024 ** (POWERS[unit.toUpperCase()] ?? 0));
  const message = `${field} is ${size}: oMLX takes sizes such as 8GB`;
  throw new MetalbridgeError("EngineSettingsRefused", message);
}

function refuseArguments(extraArgs: readonly string[]): void {
  const refused = extraArgs.filter(
    (argument) => argument.startsWith("-") && !ALLOWED_FLAGS.includes(argument.split("=", 1)[0] ?? ""),
  );
  if (refused.length === 0) return;
  throw new MetalbridgeError(
    "ExtraArgRefused",
    `oMLX: ${refused.join(", ")}; allowed are ${ALLOWED_FLAGS.join(", ")}`,
  );
}
