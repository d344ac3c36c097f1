/** Arguments of an engine that settings of a service cover, and how a list of arguments is read with them. Pure. */
import { z } from "zod";

/** Arguments in front of those of the service, which its settings override. */
export interface InheritedArguments {
  readonly origin: string;
  readonly count: number;
}

export interface ArgumentSetting {
  /** Path of the setting below spec. */
  readonly setting: string;
  /**
   * Values by the words for them, in addition to those that the setting takes itself; undefined is the default of the engine. The
   * empty word is the argument without a value.
   */
  readonly words?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** The value is a list with commas, and several arguments add to it. */
  readonly isList?: true;
  /** Path of the setting for values that the first one does not take. It overrides the first one. */
  readonly custom?: string;
  /** A setting whose meaning this one would change: a service that has it keeps the argument. */
  readonly unless?: string;
}

export interface EngineArguments {
  /** By the spellings of the arguments, with "-" for "_". */
  readonly settings: Readonly<Record<string, ArgumentSetting>>;
  /** True if the entry after an argument without a setting is its value, even if it looks like an argument. */
  readonly takesValue?: (argument: string) => boolean;
  /** The engine gets allowed arguments only, so one whose value is not a value of its setting is refused. */
  readonly isAllowList?: true;
}

/** The number of requests that an engine with one context for all of them serves at once. Slots would divide `contextSize`. */
export const SLOTS_ARGUMENT: ArgumentSetting = { setting: "parallelSlots", unless: "contextSize" };

/** Names of fields by the arguments for them. */
type FieldsOf<Shape> = Readonly<Record<string, keyof Shape & string>>;

/** Arguments for fields of the engine's own section of a service. Those of switches take no value; `--no-` turns one off. */
export function argumentsOfConfig<Shape extends z.ZodRawShape>(
  section: string,
  { shape }: z.ZodObject<Shape>,
  fields: FieldsOf<Shape>,
): EngineArguments["settings"] {
  const rows = Object.entries(fields).map(([argument, field]): [string, ArgumentSetting] => {
    const schema: unknown = shape[field];
    const isSwitch = schema instanceof z.ZodOptional && schema.unwrap() instanceof z.ZodBoolean;
    const words = isSwitch ? { "": !argument.startsWith("--no-") } : undefined;
    return [argument, { setting: `${section}.${field}`, words }];
  });
  return Object.fromEntries(rows);
}

/** An argument with its value, or an entry that no setting covers. */
export interface ReadArgument {
  /** As in the list. */
  readonly entries: readonly string[];
  readonly covered?: ArgumentSetting;
  readonly value?: string | undefined;
}

export function readArguments(
  entries: readonly string[],
  { settings, takesValue = () => false }: EngineArguments,
): readonly ReadArgument[] {
  const read: ReadArgument[] = [];
  for (let index = 0; index < entries.length; index += 1) {
    const entry = entries[index] ?? "";
    const next = entries[index + 1];
    const [name, inEntry] = nameAndValue(entry);
    const covered = Object.hasOwn(settings, name) ? settings[name] : undefined;
    const hasNext =
      next !== undefined &&
      inEntry === undefined &&
      (covered === undefined ? takesValue(name) : isValue(covered, next));
    const own = hasNext ? [entry, next] : [entry];
    read.push(
      covered === undefined ? { entries: own } : { entries: own, covered, value: hasNext ? next : inEntry },
    );
    index += own.length - 1;
  }
  return read;
}

function nameAndValue(entry: string): readonly [name: string, value: string | undefined] {
  const [, name = entry, value] = /^(--[^=]+)=(.*)$/s.exec(entry) ?? [];
  return [name.startsWith("--") ? name.replaceAll("_", "-") : name, value];
}

/** A switch takes no value; an argument that may stand alone takes none that looks like the next argument. */
function isValue({ words = {} }: ArgumentSetting, next: string): boolean {
  if (!Object.hasOwn(words, "")) return true;
  return Object.keys(words).length > 1 && !next.startsWith("-");
}
