/** `metalbridge key`: manages the keys of the gateway. */
import { type Command, Option } from "commander";
import type { GatewayKey, KeyEntry, KeyLimits } from "../src/gateway/key.ts";
import { keyEntries } from "../src/gateway/key-secret.ts";
import { withCluster } from "./cluster/cluster.ts";
import { durationParser, type OutputFormat, outputFlag, parseDuration, parseName } from "./cluster/flags.ts";
import { keyCreate, keyRevoke, keyRotate, keySwitch, keyUpdate } from "./key/actions.ts";
import { addGatewayFlags, addKeyFieldFlags, type KeyFlags } from "./key/flags.ts";
import { listKeySecrets } from "./key/stored.ts";
import { ageOf } from "./program/age.ts";
import { printResult } from "./program/output.ts";
import { formatTable } from "./program/table.ts";

const NAME = ["<name>", "name of the key, which is the name of its Secret"] as const;

/** Subcommands, options and actions of the verb. */
export function configureKey(command: Command): void {
  addKeyFieldFlags(addGatewayFlags(command.command("create")))
    .description("Create a key, and print it once")
    .argument(...NAME, parseName)
    .option("--yes", "skip the confirmation before the first key, from which on all clients need one")
    .addOption(outputFlag())
    .action(keyCreate);
  addGatewayFlags(command.command("list"))
    .description("List the keys: state, owner, scope, limits, expiry")
    .addOption(outputFlag())
    .action(keyList);
  addKeyFieldFlags(addGatewayFlags(command.command("update")))
    .description("Change the fields of a key that the options name")
    .argument(...NAME, parseName)
    .action(keyUpdate);
  addGatewayFlags(command.command("rotate"))
    .description(
      "Create a new key with the same name, and print it once; the previous key ends after an overlap",
    )
    .argument(...NAME, parseName)
    .addOption(
      new Option("--overlap <time>", "time for which the previous key stays valid; 0 ends it at once")
        .argParser(durationParser("0", "8760h"))
        .default(parseDuration("24h"), "24h"),
    )
    .addOption(outputFlag())
    .action(keyRotate);
  addGatewayFlags(command.command("disable"))
    .description("Refuse requests with a key until it is enabled again")
    .argument(...NAME, parseName)
    .action((name: string, flags: KeyFlags) => keySwitch(name, flags, "disabled"));
  addGatewayFlags(command.command("enable"))
    .description("Accept requests with a disabled key again")
    .argument(...NAME, parseName)
    .action((name: string, flags: KeyFlags) => keySwitch(name, flags, "enabled"));
  addGatewayFlags(command.command("revoke"))
    .description("Revoke a key for good; it is listed as revoked")
    .argument(...NAME, parseName)
    .option("--delete", "delete the Secret of the key")
    .option("--yes", "skip the confirmation before the last Secret is deleted")
    .action(keyRevoke);
}

async function keyList(flags: KeyFlags & { readonly output: OutputFormat }): Promise<void> {
  await withCluster("key", flags, async (cluster) => {
    const entries = keyEntries(await listKeySecrets(cluster), Date.now());
    printResult(flags.output, entries, () => renderKeyTable(entries, Date.now()));
  });
}

const LIMIT_WORDS: Readonly<Record<keyof KeyLimits, string>> = {
  concurrentRequests: "concurrent",
  requestsPerMinute: "requests/min",
  tokensPerMinute: "tokens/min",
  tokensPerDay: "tokens/day",
  tokensPerMonth: "tokens/month",
};

/** The keys of a gateway as a table. Pure. */
function renderKeyTable(entries: readonly KeyEntry[], nowMs: number): string {
  if (entries.length === 0) return "no keys; to create one: metalbridge key create";
  const titles = [
    "NAME",
    "STATE",
    "KEY",
    "OWNER",
    "MAY USE",
    "LIMITS",
    "PRIORITY",
    "WEIGHT",
    "EXPIRES",
    "AGE",
  ];
  return formatTable(
    titles,
    entries.map((entry) => rowOf(entry, nowMs)),
  );
}

function rowOf(entry: KeyEntry, nowMs: number): readonly string[] {
  const age = ageOf(entry.createdAt, nowMs) ?? "";
  if (entry.state === "invalid")
    return [entry.name, `invalid: ${entry.problem}`, ...new Array<string>(7).fill(""), age];
  const { name, state, keys, owner, scope, limits, priority, weight, expiresAt = "" } = entry;
  const valid = keys.filter((one) => one.state === "active");
  return [
    ...[name, state, valid.map(({ hint = "?" }) => `${hint}…`).join(" ")],
    ...[owner, scopeText(scope), limitsText(limits), priority, String(weight), expiresAt, age],
  ];
}

function scopeText(scope: GatewayKey["scope"]): string {
  if (scope === "all") return "all";
  const { namespaces = [], services = [], models = [] } = scope;
  return [...namespaces.map((name) => `${name}/*`), ...services, ...models].join(" ");
}

function limitsText(limits: KeyLimits): string {
  const names = Object.keys(LIMIT_WORDS) as (keyof KeyLimits)[];
  return names
    .flatMap((name) => (limits[name] === undefined ? [] : [`${limits[name]} ${LIMIT_WORDS[name]}`]))
    .join(", ");
}
