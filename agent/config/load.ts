/** Reads the agent's configuration once, at start: flags, managed preferences, file, environment, this machine's defaults. */

import { existsSync, readFileSync } from "node:fs";
import { homedir, hostname } from "node:os";
import { join, resolve } from "node:path";
import { parse as parseYaml } from "yaml";
import type * as z from "zod";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { MACHINE_VARIABLES, pickCredentials } from "../../src/models/source/credentials.ts";
import { defined } from "../../src/util/defined.ts";
import { joinedKubeconfigPath, readHostToken } from "../credential/file.ts";
import { MANAGED_PREFERENCES, readManagedPreferences } from "./managed.ts";
import { type AgentConfig, type AgentSettings, agentConfigSchema } from "./schema.ts";

export interface ConfigInput {
  /** YAML or JSON. */
  readonly file?: string | undefined;
  /** What a device management profile sets; it overrides the file. Absent: macOS's own place, on a Mac. */
  readonly managedFile?: string;
  /** They override both. */
  readonly flags?: AgentSettings;
  /** A host that joins: this name in place of the machine's, and no kubeconfig of the environment. */
  readonly joiningAs?: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Called with the keys of an earlier version that the file or the profile sets. */
  readonly onRetired?: (keys: readonly string[]) => void;
}

/** Accepted and ignored: an agent starts with the file of an earlier version. */
const RETIRED_KEYS = ["disk.verifyRate", "drain.propagationMs"];

/** Throws MetalbridgeError that names the key. */
export function loadAgentConfig(input: ConfigInput): AgentConfig {
  const { env = process.env, joiningAs } = input;
  const { said, from } = readSettings(input, env);
  const platform = said.platform ?? (process.platform === "darwin" ? "darwin" : "linux");
  const huggingFace = merge({ token: env.HF_TOKEN, endpoint: env.HF_ENDPOINT }, said.huggingFace ?? {});
  // The default is not asked for where a folder is given: an account may have no home folder.
  const stateDir = said.stateDir ?? defaultStateDir(platform, env);
  const joined = joinedKubeconfigPath(stateDir);
  const ofEnvironment = joiningAs !== undefined || env.KUBECONFIG === "" ? undefined : env.KUBECONFIG;
  const kubeconfig = existsSync(joined) ? joined : ofEnvironment;
  const defaults = {
    platform,
    hostName: joiningAs ?? readHostToken(said.kubeconfig ?? joined)?.claims.host ?? hostNameFrom(hostname()),
    stateDir,
    kubeconfig,
  };
  const parsed = agentConfigSchema.safeParse(
    defined({ ...defaults, ...said, huggingFace: defined(huggingFace) }),
  );
  if (!parsed.success) throw invalid(parsed.error, from);
  const config = parsed.data;
  return deepFreeze({
    ...config,
    stateDir: resolve(config.stateDir),
    huggingFace: withToken(config.huggingFace),
    sources: withCredentials(config.sources, env),
  });
}

/** Flags over managed preferences over the file, and where the last two came from. */
function readSettings({ file, flags = {}, ...input }: ConfigInput, env: NodeJS.ProcessEnv) {
  const managedFile = input.managedFile ?? (onMac(flags) ? MANAGED_PREFERENCES : undefined);
  const managed = managedFile === undefined ? undefined : readManagedPreferences(managedFile, env.PATH);
  const ownFile = file === undefined ? {} : readConfigFile(file);
  const { settings, retired } = withoutRetired(merge(ownFile, managed ?? {}));
  if (retired.length > 0) input.onRetired?.(retired);
  const said = merge(settings, defined(flags));
  return { said, from: [file, managed === undefined ? undefined : managedFile] };
}

/** Settings of earlier versions are accepted, and named so that the caller can warn. */
export function withoutRetired(settings: AgentSettings) {
  const retired: string[] = [];
  const groups = Object.entries(settings).map(([name, group]) => {
    if (!isGroup(group)) return [name, group];
    const isRetired = (key: string) => RETIRED_KEYS.includes(`${name}.${key}`);
    retired.push(
      ...Object.keys(group)
        .filter(isRetired)
        .map((key) => `${name}.${key}`),
    );
    return [name, Object.fromEntries(Object.entries(group).filter(([key]) => !isRetired(key)))];
  });
  return { settings: Object.fromEntries(groups) as AgentSettings, retired };
}

function onMac({ platform }: AgentSettings): boolean {
  return (platform ?? process.platform) === "darwin";
}

/** A machine's name as a DNS label. */
export function hostNameFrom(name: string): string {
  const label = (name.split(".")[0] ?? "")
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, "-")
    .slice(0, 63)
    .replace(/^-+|-+$/g, "");
  return label === "" ? "host" : label;
}

function defaultStateDir(platform: string, env: Readonly<Record<string, string | undefined>>): string {
  if (platform === "darwin") return join(homedir(), "Library", "Application Support", "metalbridge");
  if (process.getuid?.() === 0) return "/var/lib/metalbridge";
  return join(env.XDG_STATE_HOME ?? join(homedir(), ".local", "state"), "metalbridge");
}

function readConfigFile(path: string): AgentSettings {
  const content = readText(path, "the configuration file");
  let parsed: unknown;
  try {
    parsed = parseYaml(content);
  } catch (error) {
    const where = error instanceof Error ? error.message.split("\n")[0] : String(error);
    throw new MetalbridgeError("AgentConfigUnreadable", `${path}: ${where}`, undefined, { cause: error });
  }
  if (parsed === null || parsed === undefined) return {};
  if (typeof parsed !== "object" || Array.isArray(parsed)) {
    throw new MetalbridgeError("AgentConfigInvalid", `${path} must hold keys and values`);
  }
  return parsed as AgentSettings;
}

function readText(path: string, what: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new MetalbridgeError("AgentConfigUnreadable", `${what} cannot be read: ${why}`, undefined, {
      cause: error,
    });
  }
}

function withToken(settings: AgentConfig["huggingFace"]): AgentConfig["huggingFace"] {
  if (settings.tokenFile === undefined || settings.token !== undefined) return settings;
  const token = readText(settings.tokenFile, "huggingFace.tokenFile").trim();
  if (token === "")
    throw new MetalbridgeError("AgentConfigInvalid", "huggingFace.tokenFile: the file is empty");
  return { ...settings, token };
}

function withCredentials(
  settings: AgentConfig["sources"],
  env: Readonly<Record<string, string | undefined>>,
): AgentConfig["sources"] {
  const { credentialsFile, credentials: said } = settings;
  const ofFile = credentialsFile === undefined ? {} : readConfigFile(credentialsFile);
  const account = env.GOOGLE_APPLICATION_CREDENTIALS;
  const json =
    account === undefined
      ? {}
      : { GOOGLE_APPLICATION_CREDENTIALS_JSON: readText(account, "GOOGLE_APPLICATION_CREDENTIALS") };
  const ofEnvironment = Object.entries(env).filter(([key]) => MACHINE_VARIABLES.includes(key));
  const all: Record<string, unknown> = { ...Object.fromEntries(ofEnvironment), ...json, ...ofFile, ...said };
  const credentials = pickCredentials((key) => (typeof all[key] === "string" ? all[key] : undefined));
  return credentials === undefined ? settings : { ...settings, credentials };
}

/** Groups are merged key by key, everything else is replaced. */
function merge<T extends object>(under: T, over: T): T {
  const entries = Object.entries(over).map(([key, value]) => {
    const below: unknown = Reflect.get(under, key);
    return [key, isGroup(below) && isGroup(value) ? { ...below, ...defined(value) } : value];
  });
  return { ...under, ...Object.fromEntries(entries) };
}

function isGroup(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function invalid(error: z.ZodError, files: readonly (string | undefined)[]): MetalbridgeError {
  const from = files.filter((file) => file !== undefined).join(" or ");
  const problems = error.issues.slice(0, 5).map((issue) => {
    const at = issue.path.join(".");
    if (issue.code === "unrecognized_keys") {
      return issue.keys.map((key) => `${at === "" ? key : `${at}.${key}`}: unknown key`).join("; ");
    }
    return `${at === "" ? "configuration" : at}: ${issue.message}`;
  });
  return new MetalbridgeError(
    "AgentConfigInvalid",
    `${from === "" ? "" : `${from}: `}${problems.join("; ")}`,
  );
}

function deepFreeze<T extends object>(value: T): T {
  for (const inner of Object.values(value))
    if (typeof inner === "object" && inner !== null) deepFreeze(inner);
  return Object.freeze(value);
}
