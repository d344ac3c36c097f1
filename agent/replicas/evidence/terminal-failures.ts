/** Which failures a retry can cure and which need a change of what was asked for. */
import type { ErrorCode } from "../../../src/api/errors.ts";
import type { ModelState, RuntimeState } from "../observed.ts";
import type { TerminalFailure } from "../state/history.ts";

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
  "SourceNotSupported",
  "SourceInvalid",
  "ChecksumMismatch",
  "FileNameNotAllowed",
]);

/** True when a retry cannot help: the service, the model or the engine's version has to change first. */
export function isTerminal(code: ErrorCode): boolean {
  return TERMINAL.has(code);
}

/** True while the runtime and weights that failed are unchanged. What is unknown now counts as unchanged. */
export function isStillTerminal(tried: TerminalFailure, runtime: RuntimeState, model: ModelState): boolean {
  if (runtime.at === "present" && runtime.version !== tried.runtimeVersion) return false;
  // It is unknown whether the file was corrected since: one more start shows it.
  if (tried.weights === undefined) return false;
  // Files that replaced them are inspected first: their header says what they need.
  if (model.at !== "stored" || model.weights === undefined || model.isReplaced === true) return true;
  return model.weights === tried.weights;
}
