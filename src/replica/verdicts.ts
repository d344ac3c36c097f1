/** Which failures a retry can cure and which need a change of what was asked for. */
import type { ErrorCode } from "../errors.ts";
import type { Hopeless, ModelState, RuntimeState } from "./observed.ts";

const HOPELESS: ReadonlySet<string> = new Set<string>([
  "EngineFlagRefused",
  "EngineBadModel",
  "EngineSettingsRefused",
  "SettingNotSupported",
  "ExtraArgRefused",
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

/** True when trying again cannot help: the service, the model or the engine's version has to change first. */
export function isHopeless(code: ErrorCode): boolean {
  return HOPELESS.has(code);
}

/** True while nothing has changed that a start could not work with. What is not known now counts as unchanged. */
export function isStillHopeless(tried: Hopeless, runtime: RuntimeState, model: ModelState): boolean {
  if (runtime.at === "present" && runtime.version !== tried.runtimeVersion) return false;
  // Nobody knows whether the file was corrected since: one more start tells.
  if (tried.weights === undefined) return false;
  // Files that took their place are looked at first: their header says what they need.
  if (model.at !== "stored" || model.weights === undefined || model.isReplaced === true) return true;
  return model.weights === tried.weights;
}
