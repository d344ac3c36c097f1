/** The page of metrics of a part that has facts of a whole cluster: megabytes, and a tenth of a second to render. */
import type { Clock } from "../../ports.ts";
import type { Answer, Route } from "../listener.ts";
import { METRICS_TYPE } from "./render.ts";

/** A page is served again for this many times what it took, so that scrapes take at most a fifth of a core. */
const REUSE_PER_COST = 4;

/** Scrapes that overlap share a page, as one buffer: what clients do not read is in memory once. */
export function metricsRoute(
  render: () => string | Promise<string>,
  clock: Pick<Clock, "monotonicMs">,
): Route {
  let page: Promise<Answer> | undefined;
  let goodUntilMs = 0;
  const renderPage = async (): Promise<Answer> => {
    const startedMs = clock.monotonicMs();
    try {
      const body = Buffer.from(await render());
      const nowMs = clock.monotonicMs();
      goodUntilMs = nowMs + REUSE_PER_COST * (nowMs - startedMs);
      return { status: 200, body, type: METRICS_TYPE };
    } catch (error) {
      goodUntilMs = 0;
      throw error;
    }
  };
  return () => {
    if (page === undefined || clock.monotonicMs() >= goodUntilMs) {
      goodUntilMs = Number.POSITIVE_INFINITY;
      page = renderPage();
    }
    return page;
  };
}
