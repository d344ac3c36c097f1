/** Sets arguments in extraArgs that a setting covers as that setting, so that claims, checks and defaults count them. Pure. */
import { z } from "zod";
import { MetalbridgeError } from "../api/errors.ts";
import type { Runtime } from "../api/fields/runtimes.ts";
import {
  type InferenceServiceSpec,
  type InferenceServiceStatus,
  inferenceServiceSpecSchema,
} from "../api/inference-service/index.ts";
import { speculativeDecodingOf } from "../api/inference-service/roles.ts";
import { contradictionInSettings } from "../api/inference-service/rules.ts";
import {
  type ArgumentSetting,
  type EngineArguments,
  type InheritedArguments,
  type ReadArgument,
  readArguments,
} from "../engines/contract/arguments.ts";
import { engineDescription } from "../engines/registry.ts";
import { isDeepEqual } from "../util/deep-equal.ts";

export interface ArgumentsAsSettings {
  readonly spec: InferenceServiceSpec;
  /** One for each argument that is a setting now, for the condition SpecHonored. */
  readonly notes: readonly string[];
  /** Settings in inherited arguments, by their paths, for readers that see the service only. */
  readonly inheritedSettings?: InferenceServiceStatus["inheritedSettings"];
}

interface Setting {
  readonly row: ArgumentSetting;
  /** Path of the one of the row that takes the value. */
  readonly setting: string;
  /** Undefined is the default of the engine. */
  readonly value: unknown;
  readonly argument: string;
  readonly origin: string;
}

/** Throws `ExtraArgRefused` for an argument that contradicts its setting, and for a value that an allow-list does not let through. */
export function argumentsAsSettings(
  spec: InferenceServiceSpec,
  runtime: Runtime | undefined,
  inherited: readonly InheritedArguments[] = [],
): ArgumentsAsSettings {
  const known = runtime && engineDescription(runtime)?.arguments;
  if (known === undefined || spec.extraArgs === undefined) return { spec, notes: [] };
  const kept: string[] = [];
  const found = new Map<string, Setting>();
  for (const { origin, one } of argumentsIn(spec, inherited, known)) {
    const { entries, covered } = one;
    const read = covered && readValue(covered, one, origin);
    if (covered !== undefined && read !== undefined)
      found.set(covered.setting, joined(found.get(covered.setting), read));
    else if (covered !== undefined && known.isAllowList)
      throw refused(
        origin,
        `${entries.join(" ")} has no value that spec.${covered.setting} takes: remove it`,
      );
    else kept.push(...entries);
  }
  if (kept.length === spec.extraArgs.length) return { spec, notes: [] };
  const settings = [...found.values()];
  const notes = settings.map(noteOf);
  const extraArgs = kept.length === 0 ? undefined : kept;
  const merged = withSettings({ ...spec, extraArgs }, settings);
  requireRules(merged, settings);
  return { spec: merged, notes, inheritedSettings: inheritedOf(settings) };
}

function inheritedOf(settings: readonly Setting[]): ArgumentsAsSettings["inheritedSettings"] {
  const inherited = settings.filter(({ origin, value }) => origin !== OWN && value !== undefined);
  if (inherited.length === 0) return undefined;
  return Object.fromEntries(inherited.map(({ setting, value }) => [setting, value]));
}

/** The API server has checked only the fields that were set as such. */
function requireRules(merged: InferenceServiceSpec, settings: readonly Setting[]): void {
  const contradiction = settings.length === 0 ? undefined : contradictionInSettings(merged);
  if (contradiction === undefined) return;
  const origins = [...new Set(settings.map(({ origin }) => origin))].join(", ");
  throw refused(origins, `${settings.map(({ argument }) => argument).join(" ")}: ${contradiction}`);
}

function noteOf({ setting, value, argument, origin }: Setting): string {
  return `${origin}: ${argument} is ${value === undefined ? "the default without" : "set as"} ${setting}`;
}

const OWN = "extraArgs";

/** Without inherited arguments whose setting the service has: the service overrides them. */
function* argumentsIn(
  spec: InferenceServiceSpec,
  inherited: readonly InheritedArguments[],
  known: EngineArguments,
) {
  const { extraArgs = [] } = spec;
  let start = 0;
  for (const { origin, count } of [...inherited, { origin: OWN, count: extraArgs.length }]) {
    for (const one of readArguments(extraArgs.slice(start, start + count), known)) {
      const { covered, entries } = one;
      const isSet = covered !== undefined && givenFor(spec, covered) !== undefined;
      const isKept = !isSet && covered?.unless !== undefined && settingAt(spec, covered.unless) !== undefined;
      if (isKept) yield { origin, one: { entries } };
      else if (origin === OWN || !isSet) yield { origin, one };
    }
    start += count;
  }
}

/** The schema of a setting, without its default. */
export function schemaOfSetting(path: string): z.ZodType | undefined {
  let schema: unknown = inferenceServiceSpecSchema;
  for (const name of path.split(".")) {
    schema = schema instanceof z.ZodObject ? schema.shape[name] : undefined;
    while (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault) schema = schema.unwrap();
  }
  return schema as z.ZodType | undefined;
}

/** Undefined if the setting does not take the value. */
function readValue(
  row: ArgumentSetting,
  { entries, value }: ReadArgument,
  origin: string,
): Setting | undefined {
  const found = { row, setting: row.setting, argument: entries.join(" "), origin };
  if (value !== "" && Object.hasOwn(row.words ?? {}, value ?? ""))
    return { ...found, value: row.words?.[value ?? ""] };
  if (value === undefined) return undefined;
  const candidates = row.isList ? [value.split(",")] : [...(value === "" ? [] : [Number(value)]), value];
  for (const setting of [row.setting, ...(row.custom === undefined ? [] : [row.custom])]) {
    const schema = schemaOfSetting(setting);
    const index = candidates.findIndex((one) => schema?.safeParse(one).success);
    if (index >= 0) return { ...found, setting, value: candidates[index] };
  }
  return undefined;
}

/** The last one counts, as on a command line. */
function joined(before: Setting | undefined, now: Setting): Setting {
  if (now.row.isList !== true || before === undefined) return now;
  const argument = `${before.argument} ${now.argument}`;
  const value = [before, now].flatMap((one) => one.value);
  if (schemaOfSetting(now.setting)?.safeParse(value).success !== true)
    throw refused(now.origin, `${argument} has more entries than spec.${now.setting} takes: remove some`);
  return { ...now, value, argument };
}

function withSettings(spec: InferenceServiceSpec, settings: readonly Setting[]): InferenceServiceSpec {
  let merged = spec;
  for (const { row, setting, value, argument, origin } of settings) {
    const given = givenFor(spec, row);
    if (given !== undefined && !isDeepEqual(given.value, value))
      throw refused(
        origin,
        `${argument} contradicts spec.${given.setting}, which is ${JSON.stringify(given.value)}: remove one of the two`,
      );
    merged = withSetting(merged, setting, value);
  }
  for (const { setting, argument, origin } of settings) {
    const [field = "", part] = setting.split(".");
    if (part === undefined) continue;
    const complete = schemaOfSetting(field)?.safeParse(settingAt(merged, field));
    if (complete?.success !== true)
      throw refused(origin, `${argument} is spec.${setting}, which needs spec.${field}.type: set it too`);
    merged = { ...merged, [field]: complete.data };
  }
  return merged;
}

/** The spec with a value at the path of a setting. */
export function withSetting(
  spec: InferenceServiceSpec,
  setting: string,
  value: unknown,
): InferenceServiceSpec {
  const [field = "", part] = setting.split(".");
  if (part === undefined) return { ...spec, [field]: value };
  // A draft model alone is a type already.
  const whole =
    spec[field as keyof InferenceServiceSpec] ??
    (field === "speculativeDecoding" ? speculativeDecodingOf(spec) : {});
  return { ...spec, [field]: { ...(whole as object), [part]: value } };
}

/** The setting of the service that an argument would change, unless it is the default of the engine. */
function givenFor(spec: InferenceServiceSpec, { setting, custom, words = {} }: ArgumentSetting) {
  const other = custom === undefined ? undefined : settingAt(spec, custom);
  if (custom !== undefined && other !== undefined) return { setting: custom, value: other };
  const value = settingAt(spec, setting);
  const isDefault = Object.hasOwn(words, String(value)) && words[String(value)] === undefined;
  return value === undefined || isDefault ? undefined : { setting, value };
}

export function settingAt(spec: InferenceServiceSpec, path: string): unknown {
  const [field = "", part] = path.split(".");
  const value: unknown = spec[field as keyof InferenceServiceSpec];
  return part === undefined ? value : (value as Readonly<Record<string, unknown>> | undefined)?.[part];
}

function refused(origin: string, message: string): MetalbridgeError {
  return new MetalbridgeError("ExtraArgRefused", `${origin}: ${message}`);
}
