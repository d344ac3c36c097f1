/** The key `backends` of the agent's configuration: the BackendRuntimes whose programs this host runs. */
import { realpath } from "node:fs/promises";
import * as z from "zod";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { backendEntry } from "../../../src/engines/generic/backend-entry.ts";
import { absolutePath } from "../driver/config-fields.ts";
import type { InstalledProgram } from "../driver/engine.ts";
import { checkProgram } from "./programs.ts";

/** The status of a Host has room for 32 runtimes. */
const MAX_BACKENDS = 16;

const backendName = z
  .string()
  .regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, "must be the name of a BackendRuntime, a DNS label");

export const backendsConfig = z
  .record(backendName, z.strictObject({ path: absolutePath }))
  .refine((all) => Object.keys(all).length <= MAX_BACKENDS, `must have at most ${MAX_BACKENDS} entries`)
  .describe(
    "BackendRuntimes that this host allows: their names, each with the path of its program. The agent runs the program as its user, with the arguments of the BackendRuntime and of services. No other program is allowed by this key.",
  )
  .default({});

export type AllowedBackends = z.output<typeof backendsConfig>;

/** The path that the configuration allows for the program of a BackendRuntime. Throws `BackendNotAllowed`. */
export function allowedPath(backends: AllowedBackends, name: string, program: string): string {
  const path = pathOf(backends, name);
  const key = `backends.${name}.path in the agent's configuration`;
  if (path === undefined)
    throw new MetalbridgeError("BackendNotAllowed", `this host does not allow BackendRuntime ${name}`, {
      summary: `set ${key} to the path of its program, and restart the agent`,
    });
  if (!program.startsWith("/") || program === path) return path;
  throw new MetalbridgeError(
    "BackendNotAllowed",
    `BackendRuntime ${name} runs ${program}, but this host allows only ${path}`,
    {
      summary: `correct ${key} and restart the agent, or name the program without a path in host.command of the BackendRuntime`,
    },
  );
}

/** Undefined if the name is not allowed. Only own properties count: every object inherits names such as `constructor`. */
export function pathOf(backends: AllowedBackends, name: string): string | undefined {
  return Object.hasOwn(backends, name) ? backends[name]?.path : undefined;
}

/** The allowed programs that exist and are executable. */
export async function findBackends(backends: AllowedBackends): Promise<readonly InstalledProgram[]> {
  const found = await Promise.all(
    Object.entries(backends).map(async ([name, { path }]) => {
      const isUsable = await checkProgram(path, [path]).then(
        () => true,
        () => false,
      );
      return isUsable ? [{ name: backendEntry(name), path, version: await homebrewVersion(path) }] : [];
    }),
  );
  return found.flat();
}

/** Homebrew links programs into folders named after their version. */
async function homebrewVersion(path: string): Promise<string | undefined> {
  const real = await realpath(path).catch(() => path);
  return /\/Cellar\/[^/]+\/([^/]+)\//.exec(real)?.[1];
}
