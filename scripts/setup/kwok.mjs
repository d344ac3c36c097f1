/** A real kwok for the tests of pods: it simulates the nodes they run on. */
import { goProgram } from "./go-program.mjs";

export const { find: findKwok, ensure: ensureKwok } = goProgram({
  program: "kwok",
  variable: "METALBRIDGE_KWOK",
  module: "sigs.k8s.io/kwok/cmd/kwok",
  version: "v0.8.0",
  flags: ["-trimpath", "-ldflags=-s -w"],
});
