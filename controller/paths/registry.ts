/** Every path on which services run, one line each; the first is the default. */
import type { ServicePath } from "../service/path.ts";
import { createMacPath } from "./mac/path.ts";
import type { MacPorts } from "./mac/ports.ts";

/** What the paths work with, together. */
export type PathPorts = MacPorts;

export function createPaths(ports: PathPorts): readonly [ServicePath, ...ServicePath[]] {
  return [createMacPath(ports)];
}
