/** The agent's environment apart from its configuration: search paths, and variables for engines. */
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import {
  CREDENTIAL_ENV_PREFIX,
  pickCredentials,
  type SourceCredentials,
} from "../../src/models/source/credentials.ts";

export interface Environment {
  /** All variables; engines get a selection of them. */
  readonly all: Readonly<Record<string, string | undefined>>;
  /** The search path for tools of the system. */
  readonly toolPath: string;
  readonly tempDir: string;
  readonly agentVersion: string;
}

export function readEnvironment(): Environment {
  return {
    all: process.env,
    toolPath: process.env.PATH ?? "/usr/bin:/bin:/usr/sbin:/sbin",
    tempDir: tmpdir(),
    agentVersion: packageVersion(),
  };
}

/** The version in the package.json of this file, or of the bundle, which is one folder below its package.json. */
function packageVersion(): string {
  for (const place of ["../../package.json", "../package.json", "./package.json"]) {
    try {
      const parsed: unknown = JSON.parse(readFileSync(new URL(place, import.meta.url), "utf8"));
      if (typeof parsed === "object" && parsed !== null && "version" in parsed) return String(parsed.version);
    } catch {
      // Tries the next path.
    }
  }
  return "unknown";
}

/** Credentials of the source in a download Job, where each key of the Secret has a prefix. Undefined if there are none. */
export function readSourceCredentials(): SourceCredentials | undefined {
  return pickCredentials((key) => process.env[`${CREDENTIAL_ENV_PREFIX}${key}`] || undefined);
}
