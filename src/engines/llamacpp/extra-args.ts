/** Checks `extraArgs` against the allow-list: allowed arguments are passed to the engine, all others are rejected. */
import { ALLOWED_FLAGS, REPLACED_FLAGS, TYPED_FLAGS } from "./allowed-flags.ts";
import type { ArgvProblem } from "./argv-builder.ts";
import { type Capabilities, type Flag, findFlag } from "./capabilities.ts";

export interface ExtraArgs {
  readonly argv: readonly string[];
  /** All spellings of the flags in `argv`, without values that look like flags. */
  readonly flags: ReadonlySet<string>;
  readonly problems: readonly ArgvProblem[];
}

/** More threads than any machine has cores for. */
const THREADS_MAX = 512;

/**
 * Values are recognized with the help of the build itself, so a flag cannot be hidden in the place of a value, and a value cannot
 * be read as a flag.
 */
export function checkExtraArgs(extraArgs: readonly string[], capabilities: Capabilities): ExtraArgs {
  const argv: string[] = [];
  const flags = new Set<string>();
  const problems: ArgvProblem[] = [];
  for (let index = 0; index < extraArgs.length; index += 1) {
    const name = normalize(extraArgs[index] ?? "");
    const flag = findFlag(capabilities, name);
    const value = takesValue(capabilities.flags.get(name), extraArgs[index + 1])
      ? extraArgs[index + 1]
      : undefined;
    const why = refusal(name, flag, value, capabilities);
    if (why === undefined) {
      argv.push(name, ...(value === undefined ? [] : [value]));
      for (const spelling of flag?.names ?? []) flags.add(spelling);
    } else problems.push({ field: "extraArgs", why, code: "ExtraArgRefused" });
    if (value !== undefined) index += 1;
  }
  return { argv, flags, problems };
}

/** The word after an unknown flag counts as its value, and is rejected together with the flag. */
function takesValue(flag: Flag | undefined, next: string | undefined): boolean {
  if (flag !== undefined) return flag.value !== undefined;
  return next !== undefined && !next.startsWith("-");
}

/** llama-server reads `_` in long flags as `-`. */
function normalize(argument: string): string {
  return argument.startsWith("--") ? argument.replaceAll("_", "-") : argument;
}

function refusal(
  name: string,
  flag: Flag | undefined,
  value: string | undefined,
  capabilities: Capabilities,
): string | undefined {
  if (!/^-{1,2}[A-Za-z]/.test(name)) return `"${name}" is not a flag`;
  if (/^--[^=]*=/.test(name)) return `${name}: write flag and value as two entries`;
  if (flag === undefined) {
    const instead = REPLACED_FLAGS[name] ?? "";
    const hint =
      instead !== "" && findFlag(capabilities, "--load-mode") !== undefined ? `; use ${instead}` : "";
    return `llama-server ${capabilities.version} has no ${name}${hint}`;
  }
  const typed = flag.names.find((one) => Object.hasOwn(TYPED_FLAGS, one));
  if (typed !== undefined) return typedRefusal(name, TYPED_FLAGS[typed] ?? "");
  if (!flag.names.some((one) => ALLOWED_FLAGS.has(one))) {
    return `${name} is not allowed: it may reach files, ports or downloads, or change the memory that was claimed`;
  }
  if (flag.value === undefined) return undefined;
  if (value === undefined) return `${name} needs a value`;
  if (flag.value.includes(" ")) return `${name} takes several values, which is not supported`;
  if (flag.choices !== undefined && !flag.choices.includes(value)) {
    return `${name} does not take ${value}; it takes ${flag.choices.join(", ")}`;
  }
  return countRefusal(name, flag, value);
}

/** Limits the number of threads, because each takes a stack and a place in the scheduler of the machine. */
function countRefusal(name: string, { names }: Flag, value: string): string | undefined {
  if (!names.some((one) => one.startsWith("--threads"))) return undefined;
  if (/^-?[0-9]{1,4}$/.test(value) && Number(value) <= THREADS_MAX) return undefined;
  return `${name} takes at most ${THREADS_MAX} threads`;
}

function typedRefusal(name: string, field: string): string {
  return field === "" ? `${name} is set by Metalbridge` : `${name} is set by ${field}`;
}
