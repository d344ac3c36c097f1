/** What the agent takes from its environment besides configuration: search paths and what engines inherit. */
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";

export interface Environment {
  /** The whole environment; engines get a chosen part of it. */
  readonly all: Readonly<Record<string, string | undefined>>;
  /** Where tools of the system are looked for. */
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

/** Of the package that this file is in; a bundle lies one folder below its package.json as well. */
function packageVersion(): string {
  for (const place of ["../../package.json", "../package.json", "./package.json"]) {
    try {
      const parsed: unknown = JSON.parse(readFileSync(new URL(place, import.meta.url), "utf8"));
      if (typeof parsed === "object" && parsed !== null && "version" in parsed) return String(parsed.version);
    } catch {
      // The next place.
    }
  }
  return "unknown";
}
