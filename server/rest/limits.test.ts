import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createDensity } from "../density/density.ts";
import { createFits } from "../density/fits.ts";
import { catalogRecords, manyHosts } from "../density/fixtures/fleet.ts";
import { placeOfHost } from "../density/place.ts";
import { createAnswerLimit } from "./answer-limit.ts";
import { type RouteAnswer, routes } from "./routes.ts";

test("answers under way never exceed the limits, and one that has been read makes room", () => {
  const limits = { all: 5, ofUser: 2 };
  const step = fc.record({ user: fc.constantFrom("a", "b", "c", "d"), read: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const limit = createAnswerLimit(limits);
      const underWay: { readonly user: string; readonly response: EventEmitter }[] = [];
      for (const { user, read } of steps) {
        if (read) underWay.shift()?.response.emit("close");
        const response = new EventEmitter();
        const own = underWay.filter((one) => one.user === user).length;
        const isTaken = limit.take(user, response as unknown as ServerResponse);
        expect(isTaken).toBe(underWay.length < limits.all && own < limits.ofUser);
        if (isTaken) underWay.push({ user, response });
      }
    }),
  );
});

test("whatever limit and offset ask for, a page has at most 1,000 rows, and one of the catalog 10,000 pairs", () => {
  const density = createDensity(createFits(catalogRecords()));
  for (const host of manyHosts(1_200)) density.setPlace("Host", host.metadata.name, placeOfHost(host));
  const now = { wallMs: 0, monotonicMs: 0 };
  const answer = (path: string, given: object): RouteAnswer | undefined => {
    const route = routes.find((one) => one.path.endsWith(path));
    const query = route?.query.parse(given) ?? {};
    return route?.answer({ density, now, query, body: undefined, name: "" });
  };
  const paging = fc.record({ limit: fc.integer({ min: 1, max: 10_000 }), offset: fc.nat(2_000) });
  fc.assert(
    fc.property(fc.constantFrom("/nodes", "/runtimes", "/query", "/catalog"), paging, (path, page) => {
      const given = { ...page, ...(path === "/query" ? { model: "Qwen2.5", min_fit: "too_tight" } : {}) };
      const found = answer(path, given);
      const rows = found?.status === 200 ? [...(found.list?.rows ?? [])] : [];
      expect(rows.length).toBeLessThanOrEqual(Math.min(page.limit, 1_000));
      if (path !== "/catalog") return;
      const pairs = rows.map((row) => (row as { readonly nodes: readonly object[] }).nodes.length);
      expect(pairs.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(10_000);
    }),
    { numRuns: 40 },
  );
});
