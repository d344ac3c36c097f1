/** A real Ollama for the tests of its driver. */
import { goProgram } from "./go-program.mjs";

/** The newest that `go install` builds: later modules lack headers. Such a build calls itself 0.0.0. */
const VERSION = "v0.9.6";

export const { find: findOllama, ensure: ensureOllama } = goProgram({
  program: "ollama",
  variable: "METALBRIDGE_OLLAMA",
  module: "github.com/ollama/ollama",
  version: VERSION,
  cgo: true,
});
