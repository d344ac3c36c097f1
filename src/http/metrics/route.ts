/** Routes with facts of a cluster, such as metrics, whose page has megabytes and takes a tenth of a second to render. */
import type { Clock } from "../../util/ports.ts";
import type { HttpResponse } from "../routes.ts";
import { METRICS_TYPE } from "./render.ts";

/** A page is reused for this many times its rendering time, so that scrapes take at most a fifth of a core. */
const REUSE_PER_COST = 4;

export function metricsRoute(
  render: () => string,
  clock: Pick<Clock, "monotonicMs">,
): () => HttpResponse | Promise<HttpResponse> {
  return costlyRoute(render, clock, METRICS_TYPE);
}

/** Requests share one buffer, so that a page for several slow clients is in memory once. */
export function costlyRoute(
  render: () => string,
  clock: Pick<Clock, "monotonicMs">,
  type: string,
): () => HttpResponse | Promise<HttpResponse> {
  let page: HttpResponse | undefined;
  let goodUntilMs = 0;
  return () => {
    const startedMs = clock.monotonicMs();
    if (page !== undefined && startedMs < goodUntilMs) return page;
    page = { status: 200, body: Buffer.from(render()), type };
    const nowMs = clock.monotonicMs();
    goodUntilMs = nowMs + REUSE_PER_COST * (nowMs - startedMs);
    return page;
  };
}
