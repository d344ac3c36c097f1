/** Requests in flight, from the statistics of Envoy. Pure. */

/** Requests at an endpoint, and those that wait for a connection. */
export const ACTIVE_STATS = String.raw`^cluster\..+\.upstream_rq_(pending_)?active$`;
const LINE = /^cluster\.(.+)\.upstream_rq_(?:pending_)?active: (\d+)$/gm;

/** The number of each cluster that has had a request. */
export function parseActiveRequests(stats: string): ReadonlyMap<string, number> {
  const active = new Map<string, number>();
  for (const [, cluster = "", count] of stats.matchAll(LINE))
    active.set(cluster, (active.get(cluster) ?? 0) + Number(count));
  return active;
}
