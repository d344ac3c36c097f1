/** Who a pid is: pid and start time together, because a pid alone can be given to a stranger. */
import { createDarwinIdentity } from "./darwin.ts";
import { createLinuxIdentity } from "./linux.ts";
import type { IdentityReader } from "./living-process.ts";

/** The reader for this machine's kernel. */
export function createIdentity(platform: NodeJS.Platform): IdentityReader {
  return platform === "linux" ? createLinuxIdentity() : createDarwinIdentity();
}
