import { expect, test } from "vitest";
import { canonicalQuantity, parseQuantity } from "./quantity.ts";

test.for([
  ["16Gi", 17_179_869_184],
  ["500m", 0.5],
  ["1.5G", 1_500_000_000],
  [".5Ki", 512],
  ["1e9", 1_000_000_000],
  ["2E3", 2000],
  ["1E", 1e18],
  ["0", 0],
  [42, 42],
] as const)("%s is %d", ([text, value]) => {
  expect(parseQuantity(text)).toBe(value);
});

test.for(["", "16 GiB", "16GB", "-1", "1.2.3", "Gi", "0x10", "NaN"])("%j is no quantity", (text) => {
  expect(parseQuantity(text)).toBeUndefined();
});

test("a number below zero or without end is none either", () => {
  expect(parseQuantity(-1)).toBeUndefined();
  expect(parseQuantity(Number.POSITIVE_INFINITY)).toBeUndefined();
});

test.for([
  ["1024Mi", "1Gi"],
  ["1.5Gi", "1536Mi"],
  ["1000Ki", "1000Ki"],
  ["0.5Ki", "512"],
  ["0.5", "500m"],
  ["1000m", "1"],
  ["2000", "2k"],
  ["1.5G", "1500M"],
  ["0Gi", "0"],
  ["1e9", "1e9"],
  ["999999999Ei", "999999999Ei"],
  [4, "4"],
] as const)("%s is stored as %s", ([given, stored]) => {
  expect(canonicalQuantity(given)).toBe(stored);
});
