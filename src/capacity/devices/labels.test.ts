import { expect, test } from "vitest";
import type { Devices } from "./devices.ts";
import { labelsOf } from "./labels.ts";

const GIB = 1024 ** 3;

test.each<readonly [string, Devices, Readonly<Record<string, string>>]>([
  [
    "GPUs",
    {
      gpu: {
        vendor: "NVIDIA",
        product: "NVIDIA-L40S",
        bytesEach: 44.9 * GIB,
        arch: "sm_89",
        int4: true,
        count: 2,
      },
      cpu: { avx512: false },
    },
    {
      "x/gpu.vendor": "NVIDIA",
      "x/gpu.vram": "44Gi",
      "x/gpu.arch": "sm_89",
      "x/gpu.int4": "true",
      "x/gpu.count": "2",
      "x/cpu.avx512": "false",
      "x/device-class": "nvidia-l40s-x2",
    },
  ],
  ["no facts", {}, {}],
  [
    "only a CPU",
    { cpu: { name: "EPYC 9354", cores: 32, avx512: true } },
    { "x/cpu.avx512": "true", "x/device-class": "cpu-epyc-9354-32" },
  ],
  ["values that no label can have", { gpu: { vendor: "AMD", arch: "gfx 942" } }, { "x/gpu.vendor": "AMD" }],
])("labels of a machine with %s", (_, devices, labels) => {
  expect(labelsOf(devices, "x/")).toEqual(labels);
});
