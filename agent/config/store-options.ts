/** What the model store needs of the agent's configuration. Pure. */
import { join } from "node:path";
import type { StoreOptions } from "../store/types.ts";
import type { AgentConfig } from "./schema.ts";

type Configured = Omit<StoreOptions, "clock" | "log" | "onReceived">;

/** `hostQuota` is the quota on the Host object; it overrides the machine's own. */
export function storeOptions(config: AgentConfig, hostQuota: number | undefined): Configured {
  const { huggingFace, sources, disk } = config;
  return {
    dir: join(config.stateDir, "models"),
    isReadOnly: config.dryRun,
    allowedRoots: config.modelRoots,
    hfEndpoint: huggingFace.endpoint,
    hfToken: huggingFace.token,
    allowedHosts: sources.allowedHosts,
    allowLoopback: sources.allowLoopback,
    allowPrivate: sources.allowPrivateAddresses,
    limits: { stallMs: sources.stallMs, attempts: sources.attempts },
    quotaBytes: hostQuota ?? disk.quota,
    reserveBytes: disk.reserve,
  };
}
