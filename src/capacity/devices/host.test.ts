import { expect, test } from "vitest";
import type { HostStatus } from "../../api/host.ts";
import { type Devices, deviceClassOf } from "./devices.ts";
import { devicesOfHost } from "./host.ts";

const GIB = 1024 ** 3;
const MI210 = {
  vendor: "amd",
  name: "Instinct MI210",
  memoryBytes: 64 * GIB,
  count: 2,
  unified: false,
} as const;

test.each<readonly [string | undefined, HostStatus["info"], Devices["gpu"]]>([
  [
    "apple-m4-max-40",
    { os: "darwin", chip: "Apple M4 Max", gpuCores: 40, memoryBytes: 128 * GIB },
    { vendor: "Apple", product: "Apple M4 Max", bytesEach: 128 * GIB, arch: "apple-m4", count: 1, cores: 40 },
  ],
  [
    "amd-instinct-mi210-x2",
    { os: "linux", chip: "AMD EPYC", gpus: [{ ...MI210, arch: "gfx90a" }] },
    { vendor: "AMD", product: "Instinct MI210", bytesEach: 64 * GIB, arch: "gfx90a", int4: true, count: 2 },
  ],
  [
    undefined,
    { os: "linux", chip: "AMD EPYC", gpus: [MI210, { ...MI210, vendor: "nvidia", name: "NVIDIA L4" }] },
    { vendor: "AMD", hasOtherVendors: true },
  ],
  [
    "cpu-intel-core-i7-9750h-cpu-2-60ghz-6",
    { chip: "Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz", performanceCores: 6 },
    undefined,
  ],
  ["cpu-applesauce", { chip: "Applesauce" }, undefined],
  [undefined, undefined, undefined],
])("host of class %s", (deviceClass, info, gpu) => {
  const devices = devicesOfHost({ status: { info } });
  expect(devices.gpu).toEqual(gpu);
  expect(deviceClassOf(devices)).toBe(deviceClass);
});
