/** A real Helm for the tests of the chart, and for the plain manifests that are rendered from it. */
import { goProgram } from "./go-program.mjs";

const VERSION = "v3.22.0";

export const { find: findHelm, ensure: ensureHelm } = goProgram({
  program: "helm",
  variable: "METALBRIDGE_HELM",
  module: "helm.sh/helm/v3/cmd/helm",
  version: VERSION,
  // Without the last flag a build calls itself v3.22.
  flags: [`-ldflags=-s -w -X helm.sh/helm/v3/internal/version.version=${VERSION}`],
});
