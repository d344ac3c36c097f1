import { expect, test } from "vitest";
import { type Devices, deviceClassOf } from "./devices.ts";

const GIB = 1024 ** 3;

test.each<[string | undefined, Devices]>([
  ["apple-m4-max-40", { gpu: { vendor: "Apple", product: "Apple M4 Max", cores: 40 } }],
  ["nvidia-l40s", { gpu: { vendor: "NVIDIA", product: "NVIDIA-L40S", bytesEach: 45 * GIB, count: 1 } }],
  ["nvidia-a100-sxm4-40gb-x4", { gpu: { vendor: "NVIDIA", product: "NVIDIA-A100-SXM4-40GB", count: 4 } }],
  ["nvidia-a10-shared", { gpu: { vendor: "NVIDIA", product: "NVIDIA-A10", isShared: true } }],
  ["amd-gfx942-191gi", { gpu: { vendor: "AMD", arch: "gfx942", bytesEach: 191.9 * GIB } }],
  ["cpu-amd-epyc-9354-32", { cpu: { name: "AMD EPYC 9354", cores: 32 } }],
  [undefined, { gpu: { vendor: "AMD", arch: "gfx942" } }],
  [undefined, { gpu: { vendor: "Apple" } }],
  [undefined, {}],
])("class %s", (expected, devices) => {
  expect(deviceClassOf(devices)).toBe(expected);
});

test("the class is a valid key and label value for any name", () => {
  const name = "Intel(R) Xeon(R) Gold  6330 CPU @ 2.00GHz — \u{1F600} ".repeat(9);
  const found = deviceClassOf({ cpu: { name, cores: 56 } });
  expect(found).toMatch(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/);
  expect(found?.length).toBeLessThanOrEqual(63);
});
