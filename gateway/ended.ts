/** The ends of requests, from Envoy's access log: slots become free, tokens are charged, figures are counted. */
import type { Clock, Log } from "../src/util/ports.ts";
import { parseTicket } from "./decide/ticket.ts";
import { hasReplicaFailed, speedOf, tokensOf } from "./decide/tokens.ts";
import { type FinishedRequest, parseAccessLogLine } from "./envoy/access-log.ts";
import type { HeldBodies } from "./limits/bodies.ts";
import type { Limits } from "./limits/limits.ts";
import { labelsOf, observeOf, type RequestFigures } from "./metrics.ts";
import type { Queues } from "./queue/queues.ts";
import type { TracedRequest } from "./telemetry/span.ts";
import { createTlsFailures } from "./tls-failures.ts";

export interface EndPorts {
  readonly queues: Queues;
  readonly limits: Limits;
  readonly bodies: HeldBodies;
  readonly figures: RequestFigures;
  /** Called with the tokens of each request that was assigned to a replica. */
  readonly onUsage: (usage: TracedRequest) => void;
  readonly clock: Clock;
  readonly log: Log;
}

export function createEnds(ports: EndPorts): (lines: readonly string[]) => void {
  const reportTlsFailure = createTlsFailures(ports.log);
  return (lines) => {
    for (const line of lines) {
      const finished = parseAccessLogLine(line);
      if (finished === undefined) continue;
      reportTlsFailure(finished);
      end(finished, ports);
    }
  };
}

function end(finished: FinishedRequest, { queues, limits, bodies, figures, onUsage, clock }: EndPorts): void {
  const { requestId, status, durationMs, firstByteMs } = finished;
  bodies.release(requestId);
  queues.release(requestId, { tokensPerSecond: speedOf(finished), hasFailed: hasReplicaFailed(finished) });
  const ticket = finished.ticket === undefined ? undefined : parseTicket(finished.ticket);
  if (ticket === undefined) {
    // The client left between the decision and the replica. For other requests, nothing was admitted.
    limits.ended(requestId, { tokensIn: 0, tokensOut: 0, cached: 0, isEstimated: false }, clock.nowMs());
    return;
  }
  const { caller, model, place, waitedMs, traceParent } = ticket;
  const tokens = tokensOf(finished);
  limits.ended(requestId, tokens, clock.nowMs());
  figures.requests.add({ ...labelsOf(model), code: String(status) });
  observeOf(figures.duration, model, durationMs / 1_000);
  observeOf(figures.wait, model, waitedMs / 1_000);
  if (firstByteMs !== undefined) observeOf(figures.firstByte, model, firstByteMs / 1_000);
  onUsage({ caller, model, place, tokens, finished, traceParent });
}
