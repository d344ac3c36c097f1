/** GPU bandwidths (from llmfit 1.1.10), vendors, and the choice of the main GPU. Pure. */
import type { Accelerator } from "../../src/api/fields/hardware.ts";
import type { ReportedGpu } from "../../src/api/fields/reported-gpu.ts";

/** GB/s; the first name that is part of the GPU's name applies. */
const BANDWIDTHS =
  "m5 max 614,m5 pro 307,m5 153.6,m4 ultra 819,m4 max 546,m4 pro 273,m4 120,m3 ultra 800,m3 max 400,m3 pro 150,m3 100," +
  "m2 ultra 800,m2 max 400,m2 pro 200,m2 100,m1 ultra 800,m1 max 400,m1 pro 200,m1 68,5090 1792,5080 960,5070 ti 896," +
  "5070 672,5060 ti 448,5060 256,4090 1008,4080 super 736,4080 717,4070 ti super 672,4070 ti 504,4070 super 504," +
  "4070 504,4060 ti 288,4060 272,3090 ti 1008,3090 936,3080 ti 912,3080 760,3070 ti 608,3070 448,3060 ti 448," +
  "3060 360,2080 ti 616,2080 super 496,2080 448,2070 super 448,2070 448,2060 super 448,2060 336,1660 ti 288," +
  "1660 super 336,1660 192,1650 super 192,1650 128,h100 sxm 3350,h100 2039,h200 4800,a100 sxm 2039,a100 1555,l40s 864," +
  "l40 864,l4 300,a10g 600,a10 600,t4 320,v100 sxm 900,v100 897,a6000 768,a5000 768,a4000 448,8060s 256,8050s 256," +
  "strix halo 256,ryzen ai max 256,9070 xt 624,9070 488,7900 xtx 960,7900 xt 800,7900 gre 576,7800 xt 624,7700 xt 432," +
  "7600 288,6950 xt 576,6900 xt 512,6800 xt 512,6800 512,6700 xt 384,6600 xt 256,6600 224,mi300x 5300,mi300 5300," +
  "mi250x 3277,mi250 3277,mi210 1638,mi100 1229";

const BANDWIDTH_ROWS = BANDWIDTHS.split(",").map((text) => {
  const at = text.lastIndexOf(" ");
  return { name: text.slice(0, at), gbps: Number(text.slice(at + 1)) };
});

/** Undefined if no name matches: then speeds come from constants. */
export function bandwidthOf(gpu: string): number | undefined {
  const lower = gpu.slice(0, 256).toLowerCase();
  const isApple = lower.includes("apple");
  // "SXM4" and "HBM3" are not Apple chips.
  const rows = BANDWIDTH_ROWS.filter(({ name }) => isApple || !/^m\d\b/.test(name));
  return rows.find(({ name }) => lower.includes(name))?.gbps;
}

interface Vendor {
  readonly accelerator: Accelerator;
  /** llmfit's name. */
  readonly backend: string;
}

export const GPU_VENDORS: Readonly<Record<ReportedGpu["vendor"], Vendor>> = {
  nvidia: { accelerator: "cuda", backend: "CUDA" },
  amd: { accelerator: "rocm", backend: "ROCm" },
  intel: { accelerator: "intel", backend: "SYCL" },
};

/** The GPU on which models run: the one with the most dedicated memory, else one with shared memory. */
export function mainGpu(gpus: readonly ReportedGpu[]): ReportedGpu | undefined {
  const size = ({ memoryBytes = 0 }: ReportedGpu): number => memoryBytes;
  return [...gpus].sort((a, b) => Number(a.unified) - Number(b.unified) || size(b) - size(a))[0];
}
