/** Options of `metalbridge key`: the namespace of the keys, and the scope and limits of a key. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { prioritySchema } from "../../src/api/fields/shared.ts";
import { NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import {
  type GatewayKey,
  type KeyLimits,
  type KeyScope,
  keyLimitsSchema,
  keyScopeSchema,
  WEIGHT_MAX,
} from "../../src/gateway/key.ts";
import {
  addClusterFlags,
  type ClusterFlags,
  countParser,
  durationParser,
  parseName,
} from "../cluster/flags.ts";

export interface KeyFlags extends ClusterFlags {
  readonly namespace: string;
}

/** Options that set fields of a key. */
export interface KeyFieldFlags {
  readonly owner?: string;
  readonly all?: boolean;
  readonly namespaces?: readonly string[];
  readonly services?: readonly string[];
  readonly models?: readonly string[];
  readonly concurrentRequests?: number;
  readonly requestsPerMinute?: number;
  readonly tokensPerMinute?: number;
  readonly tokensPerDay?: number;
  readonly tokensPerMonth?: number;
  readonly priority?: GatewayKey["priority"];
  readonly weight?: number;
  readonly validFor?: number;
}

/** Flags of the kubeconfig, and the namespace of the keys. */
export function addGatewayFlags(command: Command): Command {
  return addClusterFlags(command).addOption(
    new Option("-n, --namespace <name>", "namespace with the keys of the gateway")
      .argParser(parseName)
      .default(NAMESPACE_SYSTEM),
  );
}

/** Options for the fields of a key. */
export function addKeyFieldFlags(command: Command): Command {
  const limit = (flag: string, what: string) =>
    command.option(`--${flag} <n>`, `maximum number of ${what}; 0 means no limit`, countParser(0));
  command
    .option("--owner <text>", "person or team that uses the key")
    .option("--all", "allow all services")
    .option("--namespaces <names>", "allow the services in these namespaces, comma-separated", parseList)
    .option("--services <names>", "allow these services, as namespace/name, comma-separated", parseList)
    .option("--models <names>", "allow the services with these model names, comma-separated", parseList);
  limit("concurrent-requests", "requests at the same time");
  limit("requests-per-minute", "requests per minute");
  limit("tokens-per-minute", "tokens per minute");
  limit("tokens-per-day", "tokens per day in UTC");
  limit("tokens-per-month", "tokens per month in UTC");
  return command
    .addOption(new Option("--priority <name>", "priority in the queue").choices(prioritySchema.options))
    .option(
      "--weight <n>",
      "share of the queue relative to other keys of the same priority",
      countParser(1, WEIGHT_MAX),
    )
    .option(
      "--valid-for <time>",
      "validity of the key, such as 720h (default: no expiry)",
      durationParser("1m", "87600h"),
    );
}

/** Undefined if no option names a scope. Throws InvalidArgumentError for invalid names. */
export function readScope({ all, namespaces, services, models }: KeyFieldFlags): KeyScope | undefined {
  const lists = [namespaces, services, models].filter((list) => list !== undefined);
  if (all === true) {
    if (lists.length > 0)
      throw new InvalidArgumentError("--all excludes --namespaces, --services and --models.");
    return "all";
  }
  if (lists.length === 0) return undefined;
  const parsed = keyScopeSchema.safeParse({ namespaces, services, models });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new InvalidArgumentError(`--${issue?.path[0]?.toString() ?? "all"}: ${issue?.message}`);
}

/** `before` with the limits that options name. 0 removes a limit. */
export function readLimits(before: KeyLimits, flags: KeyFieldFlags): KeyLimits {
  const names = Object.keys(keyLimitsSchema.shape) as (keyof KeyLimits)[];
  const limits: KeyLimits = { ...before };
  for (const name of names) if (flags[name] !== undefined) limits[name] = flags[name] || undefined;
  return limits;
}

function parseList(text: string): readonly string[] {
  const names = text.split(",").map((name) => name.trim());
  if (names.some((name) => name === "")) throw new InvalidArgumentError("It must be a list of names.");
  return names;
}
