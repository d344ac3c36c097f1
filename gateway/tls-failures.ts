/** Reports replicas whose certificate cannot be verified: once per service until one answers. */
import type { Log } from "../src/util/ports.ts";
import type { FinishedRequest } from "./envoy/access-log.ts";

export function createTlsFailures(
  log: Log,
): (finished: Pick<FinishedRequest, "cluster" | "endpoint" | "details">) => void {
  const reported = new Set<string>();
  return ({ cluster: service, endpoint, details }) => {
    if (service === undefined) return;
    if (details === "via_upstream") reported.delete(service);
    if (details?.includes("TLS_error") !== true || reported.has(service)) return;
    reported.add(service);
    log.warn(
      { service, endpoint, details },
      "TLS to a replica failed; check its certificate and --upstream-ca",
    );
  };
}
