/** Why a running engine is being stopped. A forced stop does not wait for requests, because the engine serves none. */
export const GRACEFUL_STOPS = [
  "deleted",
  "drained",
  "unwanted",
  "revision",
  "moved",
  "agentStopped",
  "evicted",
  "unloaded",
] as const;
export const FORCED_STOPS = ["hung", "neverHealthy", "requestFailed", "degraded"] as const;
export type GracefulStop = (typeof GRACEFUL_STOPS)[number];
export type ForcedStop = (typeof FORCED_STOPS)[number];
export type StopReason = GracefulStop | ForcedStop;
