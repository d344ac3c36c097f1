/** Reads the environment variables with the locations of programs. */
import { homedir } from "node:os";
import path, { delimiter } from "node:path";
import { z } from "zod";
import { MetalbridgeError } from "../../src/api/errors.ts";

const absolute = z
  .string()
  .optional()
  .transform((value) => (value === "" ? undefined : value))
  .refine((value) => value === undefined || path.isAbsolute(value), "must be an absolute path");

const environment = z.object({
  KUBEBUILDER_ASSETS: absolute,
  METALBRIDGE_LLAMA_SERVER: absolute,
  METALBRIDGE_OLLAMA: absolute,
  METALBRIDGE_ENVOY: absolute,
  METALBRIDGE_CACHE: absolute,
  XDG_CACHE_HOME: absolute,
  PATH: z.string().default(""),
});

export interface PartsConfig {
  readonly cacheDir: string;
  readonly assetsDir?: string;
  /** A llama-server from the user. */
  readonly llamaServer?: string;
  /** An Ollama from the user. */
  readonly ollama?: string;
  /** An Envoy from the user. */
  readonly envoy?: string;
  /** Folders of PATH. */
  readonly programFolders: readonly string[];
  readonly platform: string;
  readonly arch: string;
}

interface Machine {
  readonly platform: string;
  readonly arch: string;
  readonly home: string;
}

/** The cache folder is chosen as in scripts/setup/cache.mjs. Throws BadEnvironment. */
export function readPartsConfig(
  env: Readonly<Record<string, string | undefined>> = process.env,
  machine: Machine = { platform: process.platform, arch: process.arch, home: env.HOME ?? homedir() },
): PartsConfig {
  const parsed = environment.safeParse(env);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw new MetalbridgeError(
      "BadEnvironment",
      `${issue?.path.join(".") ?? "environment"} ${issue?.message ?? ""}`,
    );
  }
  const { data } = parsed;
  return {
    cacheDir: data.METALBRIDGE_CACHE ?? defaultCacheDir(machine, data.XDG_CACHE_HOME),
    programFolders: data.PATH.split(delimiter).filter((folder) => folder !== ""),
    platform: machine.platform,
    arch: machine.arch,
    assetsDir: data.KUBEBUILDER_ASSETS,
    llamaServer: data.METALBRIDGE_LLAMA_SERVER,
    ollama: data.METALBRIDGE_OLLAMA,
    envoy: data.METALBRIDGE_ENVOY,
  };
}

function defaultCacheDir(machine: Machine, xdg: string | undefined): string {
  if (xdg !== undefined) return path.join(xdg, "metalbridge");
  if (machine.platform === "darwin") return path.join(machine.home, "Library", "Caches", "metalbridge");
  return path.join(machine.home, ".cache", "metalbridge");
}
