/** A real OCI registry for the tests of oci:// sources. */
import { goProgram } from "./go-program.mjs";

export const { find: findRegistry, ensure: ensureRegistry } = goProgram({
  program: "registry",
  variable: "METALBRIDGE_REGISTRY",
  module: "github.com/distribution/distribution/v3/cmd/registry",
  version: "v3.1.2",
  brew: "docker-registry",
  flags: ["-trimpath", "-ldflags=-s -w"],
});
