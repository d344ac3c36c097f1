/** Who a pid is: pid and start time together, because a pid alone can be given to a stranger. */

import type { IdentityReader } from "../../../../src/macos/living-process.ts";
import { createDarwinIdentity } from "../../../../src/macos/process-identity.ts";
import { createLinuxIdentity } from "./linux.ts";

/** The reader for this machine's kernel. */
export function createIdentityReader(platform: NodeJS.Platform): IdentityReader {
  return platform === "linux" ? createLinuxIdentity() : createDarwinIdentity();
}
