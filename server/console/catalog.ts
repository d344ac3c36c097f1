/** GET /console/catalog: the records of the catalog, each with the host that it fits best. */
import type { FastifyRequest } from "fastify";
import type { CatalogRecord } from "../../fitness/catalog/record.ts";
import type { Density } from "../../fitness/density/density.ts";
import { groupSites, rank } from "../../fitness/density/views.ts";
import type { CatalogFit, CatalogResponse } from "../../src/console/catalog.ts";
import { CONSOLE_PATH } from "../../src/console/protocol.ts";
import { type Moment, momentOf } from "../../src/util/moment.ts";
import type { Clock } from "../../src/util/ports.ts";
import { accessOf } from "../rest/authorize.ts";
import type { MountRoutes } from "./reader.ts";

export function createCatalog(density: Density, clock: Clock): MountRoutes {
  return (scope, { requireReader, mayAccess }) => {
    const answer = async (request: FastifyRequest): Promise<CatalogResponse<CatalogRecord>> => {
      const reader = await requireReader(request);
      const maySeeFits = await mayAccess(reader, accessOf({ verb: "get", part: "catalog" }));
      const models = density.fits.records;
      return { models, fits: maySeeFits ? fitsOf(density, models, momentOf(clock)) : {} };
    };
    scope.get(`${CONSOLE_PATH}/catalog`, { config: { calledBy: "call" } }, answer);
  };
}

function fitsOf(
  density: Density,
  records: readonly CatalogRecord[],
  now: Moment,
): Readonly<Record<string, CatalogFit>> {
  // A deployment without further settings runs on hosts, so only these count.
  const groups = groupSites(density, now, "Host");
  const entries = records.flatMap((record): (readonly [string, CatalogFit])[] => {
    const [best] = rank(groups, [record], { minLevel: "too_tight", sort: "score" }).rows(0, 1);
    if (best === undefined) return [];
    const { fitLevel: level, nodeName: machine, model } = best;
    return [[record.name, { level, machine, tokensPerSecond: model.estimated_tps }]];
  });
  return Object.fromEntries(entries);
}
