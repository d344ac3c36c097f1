import { expect, test } from "vitest";
import { parseExposition } from "../../../test/metrics/exposition.ts";
import type { MetricFamily, MetricSample } from "./family.ts";
import { renderFamilies } from "./render.ts";

const gauge = (read: () => Iterable<MetricSample>): MetricFamily<object> => ({
  name: "metalbridge_test",
  help: "A test.",
  type: "gauge",
  read,
});

test("a page has each sample once, in order, however many there are", () => {
  const names = Array.from({ length: 1_000 }, (_, index) => `chat-${index}`);
  const many = gauge(() => names.map((service, value) => ({ labels: { service }, value })));
  const shown = parseExposition(renderFamilies([many], {})).get("metalbridge_test")?.samples ?? [];
  expect(shown.map(({ labels, value }) => [labels.service, value])).toEqual(
    names.map((name, index) => [name, index]),
  );
});

test("numbers that are not finite are written as Prometheus reads them", () => {
  const values = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN, 1e21];
  const odd = gauge(() => values.map((value, index) => ({ labels: { index: String(index) }, value })));
  const lines = renderFamilies([odd], {}).trimEnd().split("\n").slice(2);
  expect(lines.map((line) => line.split(" ")[1])).toEqual(["Inf", "-Inf", "NaN", "1e+21"]);
});

test("a family without samples is a page of its description", () => {
  expect(renderFamilies([gauge(() => [])], {})).toBe(
    "# HELP metalbridge_test A test.\n# TYPE metalbridge_test gauge\n",
  );
});
