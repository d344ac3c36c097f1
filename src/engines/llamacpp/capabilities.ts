/** Capabilities of an installed llama-server, read from its `--help` and `--version`, because flags differ by build. */

export interface Flag {
  /** All spellings, short and long. */
  readonly names: readonly string[];
  /** Placeholder for the value in the help; absent for a switch. */
  readonly value?: string;
  /** Allowed values, if the help lists them. */
  readonly choices?: readonly string[];
  /** The help still lists the flag, but the program rejects it. */
  readonly isRemoved: boolean;
  readonly description: string;
}

export interface Capabilities {
  /** For example `b11669`, or "unknown". */
  readonly version: string;
  readonly build?: number;
  readonly flags: ReadonlyMap<string, Flag>;
}

const NAME = /^(--?[A-Za-z0-9][A-Za-z0-9_.-]*)(,\s+)?/;
const VERSION = /version: (?:[\d.]+ \(build (\d+), commit \S+\)|(\d+) \(\S+\))/;

/** Text that is no help results in no flags. */
export function parseCapabilities(helpText: string, versionText: string): Capabilities {
  const flags = new Map<string, Flag>();
  for (const entry of splitEntries(helpText)) {
    const flag = parseEntry(entry);
    if (flag !== undefined) for (const name of flag.names) flags.set(name, flag);
  }
  const match = VERSION.exec(versionText);
  const build = Number(match?.[1] ?? match?.[2]);
  return Number.isSafeInteger(build) && build > 0
    ? { version: `b${build}`, build, flags }
    : { version: "unknown", flags };
}

/** The flag of this build by any of its spellings. A removed flag counts as unknown. */
export function findFlag(capabilities: Capabilities, ...names: readonly string[]): Flag | undefined {
  for (const name of names) {
    const flag = capabilities.flags.get(name);
    if (flag !== undefined && !flag.isRemoved) return flag;
  }
  return undefined;
}

/** The first of the spellings that this build supports. */
export function supportedSpelling(
  capabilities: Capabilities,
  ...names: readonly string[]
): string | undefined {
  return names.find((name) => findFlag(capabilities, name) !== undefined);
}

function splitEntries(help: string): string[][] {
  const entries: string[][] = [];
  for (const line of help.split(/\r?\n/)) {
    if (/^-{1,2}[A-Za-z0-9]/.test(line)) entries.push([line]);
    else if (/^\s+\S/.test(line)) entries.at(-1)?.push(line.trim());
  }
  return entries;
}

/** `-fa,   --flash-attn [on|off|auto]       set …`: names by comma, then perhaps one space and the value, then the text. */
function parseEntry(lines: readonly string[]): Flag | undefined {
  let rest = lines[0] ?? "";
  const names: string[] = [];
  for (let more = true; more; ) {
    const match = NAME.exec(rest);
    if (match?.[1] === undefined) break;
    names.push(match[1]);
    rest = rest.slice(match[0].length);
    more = match[2] !== undefined;
  }
  if (names.length === 0) return undefined;
  const value = /^ (\S.*?)(?: {2,}|$)/.exec(rest)?.[1];
  const text = rest.slice(value === undefined ? 0 : value.length + 1).trim();
  const description = [text, ...lines.slice(1)].join(" ").trim();
  const choices = value === undefined ? undefined : findChoices(value, description);
  return {
    names,
    value,
    choices,
    isRemoved: description.startsWith("the argument has been removed"),
    description,
  };
}

function findChoices(value: string, description: string): readonly string[] | undefined {
  const bracketed = /^[[{<]([a-z0-9_.+-]+(?:[|,][a-z0-9_.+-]+)+)[\]}>]$/.exec(value)?.[1];
  const listed = /^[a-z0-9_-]+(?:,[a-z0-9_-]+)+$/.test(value) ? value : undefined;
  const described = /allowed values: ([a-z0-9_]+(?:, [a-z0-9_]+)*)/.exec(description)?.[1];
  return (bracketed ?? listed ?? described)?.split(/[|,]\s*/);
}
