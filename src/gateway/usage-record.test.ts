import fc from "fast-check";
import { expect, test } from "vitest";
import { parseCsv, readUsageRecord, renderCsv, sumUsage, type UsageRow } from "./usage.ts";
import { dayOf, monthOf, recordName, renderUsageRecord } from "./usage-record.ts";

const text = fc.string({ minLength: 1 });
const count = fc.nat();
const rowArbitrary: fc.Arbitrary<UsageRow> = fc.record({
  ...{ key: text, namespace: text, model: text, host: text },
  ...{ requests: count, estimatedRequests: count, tokensIn: count, tokensOut: count, tokensCached: count },
});
const PLACE = { namespace: "gateway", gateway: "gateway-1", day: "2026-11-27" };

test("rows are read as they were written, whatever the names contain", () => {
  fc.assert(
    fc.property(fc.array(rowArbitrary), (rows) => {
      expect(readUsageRecord(renderUsageRecord(PLACE, rows))).toEqual({ day: "2026-11-27", rows });
    }),
  );
});

test("no content makes the reader fail, and a broken line loses only itself", () => {
  const labels = { "metalbridge.dev/usage-day": "2026-11-27" };
  const read = (csv: string) =>
    readUsageRecord({ metadata: { name: "a", labels }, data: { "usage.csv": csv } });
  fc.assert(
    fc.property(fc.string(), (csv) => {
      expect(read(csv)?.day).toBe("2026-11-27");
    }),
  );
  const lines =
    "key,requests,estimatedRequests,tokensIn,tokensOut,tokensCached\na,1,0,2,3,0\nb,-1,0,0,0,0\nc,x";
  expect(read(lines)?.rows).toEqual([
    {
      ...{ key: "a", namespace: "", model: "", host: "" },
      ...{ requests: 1, estimatedRequests: 0, tokensIn: 2, tokensOut: 3, tokensCached: 0 },
    },
  ]);
  expect(readUsageRecord({ metadata: { name: "a" }, data: { "usage.csv": lines } })).toBeUndefined();
  expect(readUsageRecord({ metadata: { name: "a", labels } })).toBeUndefined();
});

test("values with quotes, commas and line breaks survive", () => {
  const lines = [
    ["a,b", 'say "hi"', "x\ny"],
    ["", "plain", ""],
  ];
  expect(parseCsv(renderCsv(lines))).toEqual(lines);
  expect(parseCsv("a,b\r\n\r\nc,d")).toEqual([
    ["a", "b"],
    ["c", "d"],
  ]);
});

test("sums over any dimensions keep the totals", () => {
  const dimension = fc.constantFrom("key", "model", "namespace", "host");
  fc.assert(
    fc.property(fc.array(rowArbitrary), fc.uniqueArray(dimension), (rows, by) => {
      const total = (list: readonly UsageRow[]) =>
        list.reduce((sum, row) => sum + row.tokensIn + row.requests, 0);
      expect(total(sumUsage(rows, by))).toBe(total(rows));
    }),
  );
});

test("a record is named by day and gateway, and its name is never too long", () => {
  const nowMs = Date.parse("2026-11-27T23:59:59.999Z");
  expect([dayOf(nowMs), dayOf(nowMs + 1), monthOf("2026-11-27")]).toEqual([
    ...["2026-11-27", "2026-11-28", "2026-11"],
  ]);
  expect(recordName("gateway-1", "2026-11-27")).toBe("gateway-usage-2026-11-27-gateway-1");
  expect(recordName("Ada's Mac.local.", "2026-11-27")).toBe("gateway-usage-2026-11-27-ada-s-mac-local");
  expect(recordName("", "2026-11-27")).toMatch(/^gateway-usage-2026-11-27-\w+$/);
  expect(recordName("x".repeat(253), "2026-11-27").length).toBeLessThan(253);
});
