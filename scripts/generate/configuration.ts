/** docs/configuration.md: every key of the agent, the controller, the server and the node with its type, default, flag and meaning. */
import { Command } from "commander";
import { z } from "zod";
import { agentConfigSchema } from "../../agent/config/schema.ts";
import { nodeConfigSchema } from "../../agent/node/config.ts";
import { configureAgent } from "../../cli/agent.ts";
import { configureController } from "../../cli/controller.ts";
import { configureNode } from "../../cli/node.ts";
import { configureServer } from "../../cli/server.ts";
import { controllerConfigSchema } from "../../controller/config.ts";
import { serverConfigSchema } from "../../server/config.ts";
import { environmentLines } from "./environment.ts";
import { escapeCell, markdownTable } from "./markdown.ts";

type JsonSchema = Exclude<z.core.JSONSchema._JSONSchema, boolean>;

export interface ConfigKey {
  /** Dotted, as in the file. */
  readonly key: string;
  readonly schema: JsonSchema;
}

/** Flags of the agent whose key has another name. */
export const AGENT_KEYS: Readonly<Record<string, string>> = {
  address: "addresses",
  modelRoot: "modelRoots",
  hfEndpoint: "huggingFace.endpoint",
  ollama: "ollama.programs",
  remoteAccess: "remoteAccess.logs",
};

/** The page. */
export function renderConfiguration(): string {
  return [
    "<!-- Generated from agent/config/schema.ts, controller/config.ts, server/config.ts and agent/node/config.ts by npm run generate. Do not edit. -->",
    "# Configuration",
    "",
    "Unknown keys and bad values are errors that name the key.",
    "",
    "## Agent",
    "",
    "`metalbridge agent --config FILE` reads these keys from YAML or JSON. Flags win over managed preferences of macOS ([device management](install-a-mac.md#settings-from-device-management)), these over the file, the file over the environment. Keys with a dot are in groups:",
    "",
    "```yaml",
    "hostName: mini-1",
    "drain:",
    "  quietMs: 5500",
    "```",
    "",
    ...table(configKeys(agentConfigSchema), flagsByKey(configureAgent, AGENT_KEYS)),
    "",
    "`addresses`, `modelRoots`, `llamaServer` and `ollama.programs` are lists; their flags take several values. `--remote-access logs doctor` sets `remoteAccess.doctor` too.",
    "",
    "## Controller",
    "",
    "Flags of `metalbridge controller`; there is no file. A key without a flag keeps its default.",
    "",
    ...table(configKeys(controllerConfigSchema), flagsByKey(configureController)),
    "",
    "`--log-level` (debug, info, warn or error) and `--dry-run` are beside them.",
    "",
    "## Server",
    "",
    "Flags of `metalbridge server` ([density.md](density.md)); there is no file.",
    "",
    ...table(configKeys(serverConfigSchema), flagsByKey(configureServer)),
    "",
    "`--log-level` and `--catalog` are beside them.",
    "",
    "## Node",
    "",
    "Flags of `metalbridge node` ([fitness.md](fitness-in-the-cluster.md#nodes-of-the-cluster)); there is no file.",
    "",
    ...table(configKeys(nodeConfigSchema), flagsByKey(configureNode)),
    "",
    "`--catalog`, `--log-level` and `--print` are beside them.",
    "",
    ...environmentLines(),
  ].join("\n");
}

/** Every key, groups taken apart. */
export function configKeys(schema: z.ZodType): readonly ConfigKey[] {
  return keysOf(z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }), "");
}

function keysOf({ properties = {} }: JsonSchema, prefix: string): readonly ConfigKey[] {
  return Object.entries(properties).flatMap(([name, schema]) => {
    if (typeof schema === "boolean" || schema.hidden === true) return [];
    const key = `${prefix}${name}`;
    return schema.properties === undefined ? [{ key, schema }] : keysOf(schema, `${key}.`);
  });
}

/** The flag of each key, as the command line knows it. */
export function flagsByKey(
  configure: (command: Command) => void,
  renamed: Readonly<Record<string, string>> = {},
): ReadonlyMap<string, string> {
  const command = new Command();
  configure(command);
  return new Map(
    command.options
      .filter(({ hidden }) => !hidden)
      .map((option) => {
        const name = option.attributeName();
        return [renamed[name] ?? name, option.long ?? option.flags];
      }),
  );
}

function table(keys: readonly ConfigKey[], flags: ReadonlyMap<string, string>): string[] {
  const rows = keys.map(({ key, schema }) => {
    const flag = flags.get(key);
    const shown = flag === undefined ? "" : `\`${flag}\``;
    return [`\`${key}\``, typeOf(schema), defaultOf(schema), shown, escapeCell(schema.description ?? "")];
  });
  return markdownTable(["key", "type", "default", "flag", "meaning"], rows);
}

function typeOf(schema: JsonSchema): string {
  if (schema.enum !== undefined) return schema.enum.map((value) => `\`${String(value)}\``).join(", ");
  if (schema.anyOf?.every(({ format }) => format === "ipv4" || format === "ipv6")) return "IP address";
  if (schema.anyOf?.some((one) => typeof one === "object" && one.prefixItems !== undefined))
    return "two ports";
  if (Array.isArray(schema.type) || schema.anyOf !== undefined) return "quantity, for example 20Gi";
  if (schema.type === "array") return "list";
  if (schema.type === "integer") return `whole number${rangeOf(schema)}`;
  return schema.format === "uri" ? "URL" : (schema.type ?? "any");
}

function rangeOf({ minimum, maximum }: JsonSchema): string {
  if (minimum === undefined || maximum === undefined) return "";
  return maximum === Number.MAX_SAFE_INTEGER ? `, at least ${minimum}` : `, ${minimum} to ${maximum}`;
}

function defaultOf(schema: JsonSchema): string {
  if (schema.default === undefined || (Array.isArray(schema.default) && schema.default.length === 0))
    return "";
  return `\`${typeof schema.default === "string" ? schema.default : JSON.stringify(schema.default)}\``;
}
