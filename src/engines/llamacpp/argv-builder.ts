/** Collects arguments, and the settings that the installed build does not support. */
import type { ErrorCode } from "../../api/errors.ts";
import { type Capabilities, type Flag, findFlag, supportedSpelling } from "./capabilities.ts";

/** An unsupported setting: its field, the reason, and the error code. */
export interface ArgvProblem {
  readonly field: string;
  readonly why: string;
  readonly code: ErrorCode;
}

export interface ArgvBuilder {
  readonly capabilities: Capabilities;
  readonly argv: string[];
  readonly problems: ArgvProblem[];
  /** Adds the first spelling that the build supports, if any, with its value. */
  readonly addIfKnown: (names: readonly string[], value?: string) => boolean;
  /** Same for a typed setting: an unknown flag or an unsupported value is a problem of `field`. */
  readonly add: (field: string, names: readonly string[], value?: string) => void;
  readonly refuse: (field: string, why: string, code?: ErrorCode) => void;
  readonly flag: (...names: readonly string[]) => Flag | undefined;
}

export function createArgvBuilder(capabilities: Capabilities): ArgvBuilder {
  const argv: string[] = [];
  const problems: ArgvProblem[] = [];
  const refuse: ArgvBuilder["refuse"] = (field, why, code = "SettingNotSupported") => {
    problems.push({ field, why, code });
  };
  const addIfKnown: ArgvBuilder["addIfKnown"] = (names, value) => {
    const name = supportedSpelling(capabilities, ...names);
    if (name === undefined) return false;
    argv.push(name, ...(value === undefined ? [] : [value]));
    return true;
  };
  const add: ArgvBuilder["add"] = (field, names, value) => {
    const flag = findFlag(capabilities, ...names);
    const build = `llama-server ${capabilities.version}`;
    if (flag === undefined) refuse(field, `${build} has no ${names[0]}`);
    else if (value !== undefined && flag.value === undefined)
      refuse(field, `${build} takes no value for ${names[0]}`);
    else if (value !== undefined && flag.choices !== undefined && !flag.choices.includes(value))
      refuse(field, `${build} does not know ${value}; it takes ${flag.choices.join(", ")}`);
    else addIfKnown(names, value);
  };
  return {
    capabilities,
    argv,
    problems,
    addIfKnown,
    add,
    refuse,
    flag: (...names) => findFlag(capabilities, ...names),
  };
}
