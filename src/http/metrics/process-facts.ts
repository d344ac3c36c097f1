/** The figures of this process for the standard metrics. */

import type { Clock } from "../../util/ports.ts";
import type { ProcessFacts } from "./process.ts";

export function processFacts(clock: Pick<Clock, "nowMs">): ProcessFacts {
  const { user, system } = process.cpuUsage();
  const { rss: residentBytes, heapUsed: heapUsedBytes } = process.memoryUsage();
  const startedAtSeconds = clock.nowMs() / 1_000 - process.uptime();
  return { cpuSeconds: (user + system) / 1e6, residentBytes, heapUsedBytes, startedAtSeconds };
}
