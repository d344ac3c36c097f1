/** actionlint for the test of the workflows in .github. */
import { goProgram } from "./go-program.mjs";

export const { find: findActionlint, ensure: ensureActionlint } = goProgram({
  program: "actionlint",
  variable: "METALBRIDGE_ACTIONLINT",
  module: "github.com/rhysd/actionlint/cmd/actionlint",
  version: "v1.7.12",
});
