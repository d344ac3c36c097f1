/** Reads settings that a device management (MDM) profile enforces: macOS writes them to a file that only root can change. */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { AgentSettings } from "./schema.ts";

/** The file of the payload type `dev.metalbridge` in a profile for the device. */
export const MANAGED_PREFERENCES = "/Library/Managed Preferences/dev.metalbridge.plist";

const TIMEOUT_MS = 5_000;

/** Undefined without such a profile. Throws AgentConfigUnreadable: enforced settings are never ignored. */
export function readManagedPreferences(file: string, path: string | undefined): AgentSettings | undefined {
  if (!existsSync(file)) return undefined;
  let parsed: unknown;
  try {
    // The file may be binary. Conversion fails for values that JSON lacks: dates and data.
    const text = execFileSync("plutil", ["-convert", "json", "-o", "-", file], {
      encoding: "utf8",
      timeout: TIMEOUT_MS,
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
