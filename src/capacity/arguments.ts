/** Sets arguments in extraArgs that a setting covers as that setting, so that claims, checks and defaults count them. Pure. */
import { z } from "zod";
import { MetalbridgeError } from "../api/errors.ts";
import type { Runtime } from "../api/fields/runtimes.ts";
import { type InferenceServiceSpec, inferenceServiceSpecSchema } from "../api/inference-service/index.ts";
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
}

interface Setting {
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
  const settings = new Map<string, Setting>();
  for (const { origin, one } of argumentsIn(spec, inherited, known)) {
    const { entries, covered } = one;
    const read = covered && readValue(covered, one, origin);
    if (covered !== undefined && read !== undefined)
      settings.set(covered.setting, joined(covered, settings.get(covered.setting), read));
    else if (covered !== undefined && known.isAllowList)
      throw refused(
        origin,
        `${entries.join(" ")} has no value that spec.${covered.setting} takes: remove it`,
      );
    else kept.push(...entries);
  }
  if (kept.length === spec.extraArgs.length) return { spec, notes: [] };
  const notes = [...settings].map(noteOf);
  const extraArgs = kept.length === 0 ? undefined : kept;
  const merged = withSettings({ ...spec, extraArgs }, settings);
  requireRules(merged, settings);
  return { spec: merged, notes };
}

/** The API server has checked only the fields that were set as such. */
function requireRules(merged: InferenceServiceSpec, settings: ReadonlyMap<string, Setting>): void {
  const contradiction = settings.size === 0 ? undefined : contradictionInSettings(merged);
  if (contradiction === undefined) return;
  throw refused([...settings.values()].map((one) => one.argument).join(" "), contradiction);
}

function noteOf([setting, { value, argument, origin }]: readonly [string, Setting]): string {
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
      const { covered } = one;
      const isSet = covered !== undefined && settingAt(spec, covered.setting) !== undefined;
      if (origin === OWN || !isSet) yield { origin, one };
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
  { entries, value = "" }: ReadArgument,
  origin: string,
): Setting | undefined {
  const argument = entries.join(" ");
  if (row.words !== undefined && Object.hasOwn(row.words, value))
    return { value: row.words[value], argument, origin };
  const candidates = row.isList ? [value.split(",")] : [...(value === "" ? [] : [Number(value)]), value];
  const schema = schemaOfSetting(row.setting);
  const index = candidates.findIndex((one) => schema?.safeParse(one).success);
  return index < 0 ? undefined : { value: candidates[index], argument, origin };
}

/** The last one counts, as on a command line. */
function joined({ isList }: ArgumentSetting, before: Setting | undefined, now: Setting): Setting {
  if (isList !== true || before === undefined) return now;
  const value = [before, now].flatMap((one) => one.value);
  return { ...now, value, argument: `${before.argument} ${now.argument}` };
}

function withSettings(
  spec: InferenceServiceSpec,
  settings: ReadonlyMap<string, Setting>,
): InferenceServiceSpec {
  let merged: Readonly<Record<string, unknown>> = spec;
  for (const [setting, { value, argument, origin }] of settings) {
    const given = settingAt(spec, setting);
    if (given !== undefined && !isDeepEqual(given, value))
      throw refused(
        origin,
        `${argument} contradicts spec.${setting}, which is ${JSON.stringify(given)}: remove one of the two`,
      );
    const [field = "", part] = setting.split(".");
    // A draft model alone is a type already.
    const whole = merged[field] ?? (field === "speculativeDecoding" ? speculativeDecodingOf(spec) : {});
    merged = { ...merged, [field]: part === undefined ? value : { ...(whole as object), [part]: value } };
  }
  for (const [setting, { argument, origin }] of settings) {
    const [field = "", part] = setting.split(".");
    if (part === undefined) continue;
    const complete = schemaOfSetting(field)?.safeParse(merged[field]);
    if (complete?.success !== true)
      throw refused(origin, `${argument} is spec.${setting}, which needs spec.${field}.type: set it too`);
    merged = { ...merged, [field]: complete.data };
  }
  return merged as InferenceServiceSpec;
}

function settingAt(spec: InferenceServiceSpec, path: string): unknown {
  const [field = "", part] = path.split(".");
  const value: unknown = spec[field as keyof InferenceServiceSpec];
  return part === undefined ? value : (value as Readonly<Record<string, unknown>> | undefined)?.[part];
}

function refused(origin: string, message: string): MetalbridgeError {
  return new MetalbridgeError("ExtraArgRefused", `${origin}: ${message}`);
}
