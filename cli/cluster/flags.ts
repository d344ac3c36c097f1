/** Options that several verbs share, and the parsers of their values. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { HOSTS, INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { HOST_NAME_MAX } from "../../src/api/names.ts";
import { nameOfKind } from "./kinds.ts";

export interface ClusterFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace?: string;
}

export type OutputFormat = "text" | "json";

const OBJECT_NAME_MAX = 253;
const LOG_LEVELS = ["debug", "info", "warn", "error", "silent"];
const UNITS_MS = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 } as const;

/** `--kubeconfig` and `--context`. `otherDefault` is the credential of a program that runs in a pod. */
export function addClusterFlags(command: Command, otherDefault = ""): Command {
  return command
    .option(
      "--kubeconfig <file>",
      `path to the kubeconfig (default: KUBECONFIG, ~/.kube/config${otherDefault})`,
    )
    .option("--context <name>", "kubeconfig context to use");
}

/** `--kubeconfig`, `--context` and `--namespace`. */
export function addNamespacedFlags(command: Command): Command {
  return addClusterFlags(command).option(
    "-n, --namespace <name>",
    "namespace (default: the namespace of the context, else default)",
    parseName,
  );
}

/** Options of every program that runs until it is stopped. */
export interface DaemonFlags {
  readonly logLevel: string;
  readonly exitWithStdin?: boolean;
}

export function addDaemonFlags(command: Command): Command {
  return addClusterFlags(command, ", the ServiceAccount of the pod")
    .addOption(logLevelOption().default("info"))
    .addOption(new Option("--exit-with-stdin").hideHelp());
}

/** `more` are the levels that only this verb has. */
export function logLevelOption(...more: readonly string[]): Option {
  return new Option("--log-level <level>", "log level").choices([...more, ...LOG_LEVELS]);
}

/** `--user-jwt-secret-file` of the verbs that start a gateway. */
export function userJwtSecretFileOption(): Option {
  const what =
    "file with the secret by which Open WebUI signs its users, for a queue that is fair between them";
  return new Option("--user-jwt-secret-file <file>", what);
}

/** `--output text|json`, and the other formats of a verb. */
export function outputFlag(...others: readonly string[]): Option {
  return formatOption("text", ...others, "json").default("text");
}

/** `--output` without a default. */
export function formatOption(...formats: readonly string[]): Option {
  return new Option("-o, --output <format>", "output format").choices(formats);
}

/** An option such as `--wait=false`. */
export function booleanOption(flags: string, what: string): Option {
  const read = (text: string) => {
    if (text === "true" || text === "false") return text === "true";
    throw new InvalidArgumentError("It must be true or false.");
  };
  return new Option(`${flags} <true|false>`, what).argParser(read).default(true);
}

/** `--timeout <time>`; `what` says what stops, and what continues. */
export function timeoutOption(what: string, value: string): Option {
  return new Option("--timeout <time>", `${what}, such as 90s or 10m; 0 means no limit`)
    .argParser(parseDuration)
    .default(parseDuration(value), value === "0" ? "no limit" : value);
}

/** "90s", "10m", "1h30m"; "0" for no limit. The value is in milliseconds. */
export function parseDuration(text: string): number {
  if (text === "0") return 0;
  const parts = [...text.matchAll(/(\d{1,9})(ms|h|m|s)/g)];
  const isWhole = parts.length > 0 && parts.map(([part]) => part).join("") === text;
  if (!isWhole)
    throw new InvalidArgumentError("It must be a time such as 90s, 10m or 1h30m, or 0 for no limit.");
  return parts.reduce(
    (sum, [, count, unit]) => sum + Number(count) * UNITS_MS[unit as keyof typeof UNITS_MS],
    0,
  );
}

/** Reads a time from `least` to `most`, both as a user would type them. */
export function durationParser(least: string, most: string): (text: string) => number {
  return (text) => {
    const ms = parseDuration(text);
    if (ms >= parseDuration(least) && ms <= parseDuration(most)) return ms;
    throw new InvalidArgumentError(`It must be a time from ${least} to ${most}.`);
  };
}

/** Reads a whole number from `least` to `most`. */
export function countParser(least: number, most?: number): (text: string) => number {
  return (text) => {
    const count = /^\d{1,9}$/.test(text) ? Number(text) : -1;
    if (count >= least && count <= (most ?? count)) return count;
    const range = most === undefined ? `of at least ${least}` : `from ${least} to ${most}`;
    throw new InvalidArgumentError(`It must be a whole number ${range}.`);
  };
}

export const parsePort = countParser(0, 65_535);
/** Reads a time in whole seconds. */
export const parseSeconds = countParser(1, 86_400);

/** Reads the name of an object. Other characters would change the path of the API request. */
export function parseName(text: string): string {
  if (text.length > OBJECT_NAME_MAX || !/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(text))
    throw new InvalidArgumentError("It must be a name of lowercase letters, digits, '-' and '.'.");
  return text;
}

/** Reads the name of a Host, with or without its kind: `mini-1`, `host/mini-1`. */
export function parseHostName(text: string): string {
  const name = nameOfKind(text, HOSTS);
  if (name.length > HOST_NAME_MAX)
    throw new InvalidArgumentError(`It must be a name of at most ${HOST_NAME_MAX} characters.`);
  return parseName(name);
}

/** Reads the names of Hosts, separated by commas. */
export function parseHostNames(text: string): readonly string[] {
  return text.split(",").map(parseHostName);
}

/** Reads the name of an InferenceService, with or without its kind: `chat`, `isvc/chat`. */
export function parseServiceName(text: string): string {
  return parseName(nameOfKind(text, INFERENCE_SERVICES));
}
