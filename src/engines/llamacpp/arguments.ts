/** The arguments of llama-server by the settings that cover them: those of the rows, in every spelling of the pinned build. */
import type { ArgumentSetting, EngineArguments } from "../contract/arguments.ts";
import { findFlag } from "./capabilities.ts";
import { PINNED } from "./pinned.ts";
import { LLAMACPP_ROWS } from "./settings.ts";

/** Settings that are a part of a field, with the names that other builds have. */
const PARTS: Readonly<Record<string, string>> = {
  "ropeScaling.type": "--rope-scaling",
  "ropeScaling.factor": "--rope-scale",
  "ropeScaling.originalContext": "--yarn-orig-ctx",
  "speculativeDecoding.type": "--spec-type",
  "speculativeDecoding.nDraftMax": "--spec-draft-n-max --draft-max --draft-n --draft",
  "speculativeDecoding.pMin": "--spec-draft-p-min --draft-p-min",
};

/** Their arguments are paths, which only the agent or the pod sets. */
const BY_PATH = ["chatTemplate", "slotSaveRestore"];

/** Older builds have a switch for flash attention. */
const FLASH_ATTENTION = { "": true, on: true, "1": true, off: false, "0": false, auto: undefined };
const WORDS: Readonly<Record<string, ArgumentSetting["words"]>> = {
  flashAttention: FLASH_ATTENTION,
  gpuLayers: { all: -1 },
  // The other names need a draft model.
  "speculativeDecoding.type": { "draft-mtp": "mtp" },
};
const CUSTOM: Readonly<Record<string, string>> = {
  cacheTypeK: "cacheTypeCustomK",
  cacheTypeV: "cacheTypeCustomV",
};
const LISTS = ["metadataOverrides", "tensorOverrides"];

export const LLAMACPP_ARGUMENTS: EngineArguments = {
  settings: Object.fromEntries([
    ...LLAMACPP_ROWS.filter(([field]) => field !== "ropeScaling" && !BY_PATH.includes(field)).flatMap(
      ([field, { flags = "" }]) => argumentsOf(field, flags),
    ),
    ...Object.entries(PARTS).flatMap(([setting, flags]) => argumentsOf(setting, flags)),
  ]),
  takesValue: (name) => findFlag(PINNED, name)?.value !== undefined,
  isAllowList: true,
};

function argumentsOf(setting: string, flags: string): [string, ArgumentSetting][] {
  return flags
    .split(" ")
    .filter((flag) => flag !== "")
    .flatMap((flag) => {
      const known = findFlag(PINNED, flag);
      return (known?.names ?? [flag]).map((name): [string, ArgumentSetting] => {
        const isSwitch = known !== undefined && known.value === undefined;
        const words = isSwitch ? { "": isOn(setting, name) } : WORDS[setting];
        return [
          name,
          LISTS.includes(setting) ? { setting, isList: true } : { setting, words, custom: CUSTOM[setting] },
        ];
      });
    });
}

/** `--no-warmup` turns the setting noWarmup on, and `--no-jinja` turns jinja off. */
function isOn(setting: string, name: string): boolean {
  return /^no[A-Z]/.test(setting) === /^(-no-|--no-|-nkvo$)/.test(name);
}
