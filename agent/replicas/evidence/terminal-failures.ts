/** Distinguishes failures that a retry can fix from those that need another service, model or engine version. */
import type { ErrorCode } from "../../../src/api/errors.ts";
import type { ModelState, RuntimeState, TerminalFailure } from "./observed.ts";

const TERMINAL: ReadonlySet<string> = new Set<string>([
  "EngineFlagRefused",
  "EngineBadModel",
  "EngineSettingsRefused",
  "SettingNotSupported",
  "ExtraArgRefused",
  "CommandInvalid",
  "CacheTypeMismatch",
  "RuntimeMismatch",
  "RuntimeNotSupported",
  "SourceNotAllowed",
  "SourceIsNotAModel",
  "SourceAmbiguous",
  "FilesExcluded",
  "SourceNotSupported",
  "SourceInvalid",
  "ChecksumMismatch",
  "FileNameNotAllowed",
]);

/** True if a retry cannot help: the service, the model or the engine's version has to change first. */
export function isTerminal(code: ErrorCode): boolean {
  return TERMINAL.has(code);
}

/** True while the runtime and weights that failed are unchanged. Unknown ones count as unchanged. */
export function isStillTerminal(tried: TerminalFailure, runtime: RuntimeState, model: ModelState): boolean {
  if (runtime.at === "present" && runtime.version !== tried.runtimeVersion) return false;
  // Without a record of the weights, only one more start shows whether they were corrected.
  if (tried.weights === undefined) return false;
  // Replaced files are inspected first, because their header determines the memory they need.
  if (model.at !== "stored" || model.weights === undefined || model.isReplaced === true) return true;
  return model.weights === tried.weights;
}
