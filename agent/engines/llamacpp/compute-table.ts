/** Which coefficients this host's compute buffers are estimated with. */
import { COMPUTE_TABLES, type ComputeTable } from "../../../src/engines/llamacpp/claim/compute/table.ts";
import type { AgentConfig } from "../../config/schema.ts";

/** What was measured wins; else the platform's own. */
export function computeTableOf({ memory, platform }: Pick<AgentConfig, "memory" | "platform">): ComputeTable {
  const own = platform === "darwin" ? COMPUTE_TABLES.metal : COMPUTE_TABLES.cpu;
  if (memory.compute === undefined) return own;
  return { ...memory.compute, source: "the agent's configuration", inputCopies: 0, isMeasured: true };
}
