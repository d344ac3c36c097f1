/** Builds Go programs. */
import { totalmem } from "node:os";
import { findOnPath, run } from "./command.mjs";

const ENOUGH_BYTES = 16e9;

/** The same for all, so that a package which several programs share is compiled once: smaller, without data for debuggers. */
export const BUILD_FLAGS = ["-trimpath", "-gcflags=all=-dwarf=false"];
/** Flags for the linker. A program adds its own. */
export const LINK_FLAGS = "-s -w";

/** Runs Go at low priority, because a build uses every core for minutes. With more memory the compilers need less time. */
export function runGo(go, args, { env, cgo = false, cwd }) {
  const settings = {
    ...env,
    GOFLAGS: "",
    GOGC: env.GOGC ?? (totalmem() < ENOUGH_BYTES ? "100" : "400"),
    CGO_ENABLED: cgo ? "1" : "0",
    // Half the time of a compiler's own choice, -g -O2.
    CGO_CFLAGS: "-O1",
    CGO_CXXFLAGS: "-O1",
  };
  const nice = findOnPath("nice", env);
  return nice === undefined
    ? run(go, args, { env: settings, cwd })
    : run(nice, ["-n", "10", go, ...args], { env: settings, cwd });
}
