/** Identifies a process by pid and start time, because a pid alone can be reused. */

import type { IdentityReader } from "../../macos/living-process.ts";
import { createDarwinIdentity } from "../../macos/process-identity.ts";
import { createLinuxIdentity } from "./linux.ts";

export function createIdentityReader(platform: NodeJS.Platform): IdentityReader {
  return platform === "linux" ? createLinuxIdentity() : createDarwinIdentity();
}
