/** Options that every verb which talks to a cluster has, and how their values are read. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { HOST_NAME_MAX } from "../../src/api/names.ts";

export interface ClusterFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace?: string;
}

export type OutputFormat = "text" | "json";

const OBJECT_NAME_MAX = 253;
const UNITS_MS = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 } as const;

/** `--kubeconfig` and `--context`. */
export function addClusterFlags(command: Command): Command {
  return command
    .option("--kubeconfig <file>", "how to reach the cluster (default: KUBECONFIG, then ~/.kube/config)")
    .option("--context <name>", "context of the kubeconfig");
}

/** The same and `--namespace`. */
export function addNamespacedFlags(command: Command): Command {
  return addClusterFlags(command).option(
    "-n, --namespace <name>",
    "namespace (default: that of the context, else default)",
    parseName,
  );
}

/** `--output text|json`, and what else a verb has. */
export function outputFlag(...others: readonly string[]): Option {
  const formats = ["text", ...others, "json"];
  return new Option("-o, --output <format>", "how to print it").choices(formats).default("text");
}

/** An option such as `--wait=false`. */
export function booleanOption(flags: string, what: string): Option {
  const read = (text: string) => {
    if (text === "true" || text === "false") return text === "true";
    throw new InvalidArgumentError("It has to be true or false.");
  };
  return new Option(`${flags} <true|false>`, what).argParser(read).default(true);
}

/** "90s", "10m", "1h30m"; "0" for no limit. The value is in milliseconds. */
export function parseDuration(text: string): number {
  if (text === "0") return 0;
  const parts = [...text.matchAll(/(\d{1,9})(ms|h|m|s)/g)];
  const isWhole = parts.length > 0 && parts.map(([part]) => part).join("") === text;
  if (!isWhole)
    throw new InvalidArgumentError("It has to be a time such as 90s, 10m or 1h30m; 0 for no limit.");
  return parts.reduce(
    (sum, [, count, unit]) => sum + Number(count) * UNITS_MS[unit as keyof typeof UNITS_MS],
    0,
  );
}

/** A whole number of at least `least`. */
export function countParser(least: number): (text: string) => number {
  return (text) => {
    if (!/^\d{1,9}$/.test(text) || Number(text) < least)
      throw new InvalidArgumentError(`It has to be a whole number of at least ${least}.`);
    return Number(text);
  };
}

/** A name as Kubernetes allows it: anything else would lead to another address of the API. */
export function parseName(text: string): string {
  if (text.length > OBJECT_NAME_MAX || !/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(text))
    throw new InvalidArgumentError("It has to be a name of small letters, digits, - and .");
  return text;
}

/** The name of a Host, with or without the kind before it. */
export function parseHostName(text: string): string {
  const name = text.replace(/^(hosts?|mbhosts?)\//, "");
  if (name.length > HOST_NAME_MAX)
    throw new InvalidArgumentError(`It has to be a name of at most ${HOST_NAME_MAX} letters.`);
  return parseName(name);
}

/** The name of an InferenceService, with or without the kind before it. */
export function parseServiceName(text: string): string {
  return parseName(text.replace(/^(isvc|inferenceservices?|service)\//, ""));
}
