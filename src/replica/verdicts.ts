/** Which failures a retry can cure and which need a change of what was asked for. */
import type { ErrorCode } from "../errors.ts";

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
