/** The version that Ollama's program and server report. */
import { DEVELOPMENT_BUILD } from "../../util/compare-versions.ts";

/** A build from source without a version reports 0.0.0. */
export function ollamaVersion(reported: string): string {
  return reported === "0.0.0" ? DEVELOPMENT_BUILD : reported;
}
