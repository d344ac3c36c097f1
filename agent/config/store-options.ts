/** The model store's options from the configuration. */
import { join } from "node:path";
import type { SourceCredentials } from "../../src/models/source/credentials.ts";
import type { StoreLimits, StoreOptions } from "../store/types.ts";
import type { AgentConfig } from "./schema.ts";

type Configured = Omit<StoreOptions, "clock" | "log">;

export function storeOptionsOf(config: AgentConfig): Configured {
  const { stateDir, dryRun, modelRoots, huggingFace, ollama, sources, disk } = config;
  return {
    dir: join(stateDir, "models"),
    isReadOnly: dryRun,
    allowedRoots: modelRoots,
    hfEndpoint: huggingFace.endpoint,
    ollamaRegistry: ollama.registry,
    machineCredentials: machineCredentials(config),
    allowedHosts: sources.allowedHosts,
    allowLoopback: sources.allowLoopback,
    allowPrivate: sources.allowPrivateAddresses,
    limits: limitsOf(config),
    quotaBytes: disk.quota,
    reserveBytes: disk.reserve,
  };
}

/** For Models without a Secret. */
function machineCredentials({ sources, huggingFace }: AgentConfig): SourceCredentials {
  return { ...sources.credentials, ...(huggingFace.token && { HF_TOKEN: huggingFace.token }) };
}

function limitsOf({ sources }: AgentConfig): Partial<StoreLimits> {
  const { stallMs, attempts, maxDownloads, maxBytesPerSecond, connectionsPerFile } = sources;
  const limits = { stallMs, attempts, downloads: maxDownloads, connections: connectionsPerFile };
  return maxBytesPerSecond === undefined ? limits : { ...limits, bytesPerSecond: maxBytesPerSecond };
}
