/** Reads the agent's configuration once, at start, from flags, managed preferences, a file, the environment and defaults. */

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { homedir, hostname } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { parse as parseYaml } from "yaml";
import type * as z from "zod";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { MACHINE_VARIABLES, pickCredentials } from "../../src/models/source/credentials.ts";
import { defined } from "../../src/util/defined.ts";
import { joinedKubeconfigPath, readHostToken } from "../credential/file.ts";
import { type AgentConfig, type AgentSettings, agentConfigSchema } from "./schema.ts";

/** The file of the payload type `dev.metalbridge` in a profile for the device. */
const MANAGED_PREFERENCES = "/Library/Managed Preferences/dev.metalbridge.plist";
const CONVERSION_TIMEOUT_MS = 5_000;

export interface ConfigInput {
  /** YAML or JSON. */
  readonly file?: string | undefined;
  /** Settings of a device management profile, which override the file. Absent: on a Mac, macOS's path for them. */
  readonly managedFile?: string;
  /** Override the file and the profile. */
  readonly flags?: AgentSettings;
  /** For a host that joins: replaces the machine's name, and ignores the kubeconfig of the environment. */
  readonly joiningAs?: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** Throws MetalbridgeError that names the key. */
export function loadAgentConfig(input: ConfigInput): AgentConfig {
  const { env = process.env, joiningAs } = input;
  const { settings, from } = readSettings(input, env);
  const platform = settings.platform ?? (process.platform === "darwin" ? "darwin" : "linux");
  const huggingFace = merge({ token: env.HF_TOKEN, endpoint: env.HF_ENDPOINT }, settings.huggingFace ?? {});
  // The default is not computed for a configured folder: an account may have no home folder.
  const stateDir = settings.stateDir ?? defaultStateDir(platform, env);
  const joined = joinedKubeconfigPath(stateDir);
  // Several files are merged where the default is read.
  const isOne = env.KUBECONFIG !== undefined && !env.KUBECONFIG.includes(delimiter);
  const fromEnvironment = joiningAs === undefined && isOne ? env.KUBECONFIG || undefined : undefined;
  const kubeconfig = existsSync(joined) ? joined : fromEnvironment;
  const joinedName = readHostToken(settings.kubeconfig ?? joined)?.claims.host;
  const hostName = joiningAs ?? joinedName ?? hostNameFrom(hostname());
  const defaults = { platform, hostName, stateDir, kubeconfig };
  const parsed = agentConfigSchema.safeParse(
    defined({ ...defaults, ...settings, huggingFace: defined(huggingFace) }),
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

/** Merges flags over managed preferences over the file; `from` has the paths of the last two. */
function readSettings({ file, flags = {}, ...input }: ConfigInput, env: NodeJS.ProcessEnv) {
  const isMac = (flags.platform ?? process.platform) === "darwin";
  const managedFile = input.managedFile ?? (isMac ? MANAGED_PREFERENCES : undefined);
  const managed = managedFile === undefined ? undefined : readManagedPreferences(managedFile, env.PATH);
  const ownFile = file === undefined ? {} : readConfigFile(file);
  const settings = merge(merge(ownFile, managed ?? {}), defined(flags));
  return { settings, from: [file, managed === undefined ? undefined : managedFile] };
}

/** Converts a machine's name to a DNS label. */
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
  if (!isGroup(parsed)) throw new MetalbridgeError("AgentConfigInvalid", `${path} must hold keys and values`);
  return parsed;
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
  const { credentialsFile, credentials: configured } = settings;
  const fromFile = credentialsFile === undefined ? {} : readConfigFile(credentialsFile);
  const account = env.GOOGLE_APPLICATION_CREDENTIALS;
  const json =
    account === undefined
      ? {}
      : { GOOGLE_APPLICATION_CREDENTIALS_JSON: readText(account, "GOOGLE_APPLICATION_CREDENTIALS") };
  const variables = Object.entries(env).filter(([key]) => MACHINE_VARIABLES.includes(key));
  const all: Record<string, unknown> = {
    ...Object.fromEntries(variables),
    ...json,
    ...fromFile,
    ...configured,
  };
  const credentials = pickCredentials((key) => (typeof all[key] === "string" ? all[key] : undefined));
  return credentials === undefined ? settings : { ...settings, credentials };
}

/** Merges groups key by key, and replaces all other values. */
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

/**
 * Settings that a device management (MDM) profile enforces: macOS writes them to a file that only root can change. Undefined
 * without such a profile. Throws AgentConfigUnreadable: enforced settings are never ignored.
 */
function readManagedPreferences(file: string, path: string | undefined): AgentSettings | undefined {
  if (!existsSync(file)) return undefined;
  let parsed: unknown;
  try {
    // The file may be binary. Conversion fails for values that JSON lacks: dates and data.
    const text = execFileSync("plutil", ["-convert", "json", "-o", "-", file], {
      encoding: "utf8",
      timeout: CONVERSION_TIMEOUT_MS,
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: path ?? "/usr/bin:/bin", LC_ALL: "C" },
    });
    parsed = JSON.parse(text);
  } catch (error) {
    throw unreadable(file, error);
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed))
    throw new MetalbridgeError("AgentConfigInvalid", `${file} must hold keys and values`);
  // Drops keys of the profile itself, such as PayloadUUID.
  return Object.fromEntries(Object.entries(parsed).filter(([key]) => !/^Payload[A-Z]/.test(key)));
}

function unreadable(file: string, cause: unknown): MetalbridgeError {
  const stderr = cause instanceof Error && "stderr" in cause ? String(cause.stderr).trim() : "";
  const why = stderr !== "" || !(cause instanceof Error) ? stderr : cause.message;
  return new MetalbridgeError("AgentConfigUnreadable", `managed preferences ${file}: ${why}`, undefined, {
    cause,
  });
}
