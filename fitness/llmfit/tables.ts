/** What llmfit 1.1.10 knows by heart: quantizations, bandwidths, families. Its numbers, with its errors. Pure. */

export interface QuantizationRow {
  /** Bytes per parameter, for memory and mixtures. */
  readonly memory: number;
  /** The same for the speed of dense models. */
  readonly speed: number;
  /** Factor where the bandwidth is not known. */
  readonly factor: number;
  readonly penalty: number;
}

const row = (memory: number, speed: number, factor: number, penalty: number): QuantizationRow => ({
  ...{ memory, speed, factor, penalty },
});
const ROWS: Readonly<Record<string, QuantizationRow>> = {
  F32: row(4, 0.5, 1, -5),
  F16: row(2, 2, 0.6, 0),
  BF16: row(2, 2, 0.6, 0),
  Q8_0: row(1.05, 1, 0.8, 0),
  Q6_K: row(0.8, 0.75, 0.95, -1),
  Q5_K_M: row(0.68, 0.625, 1, -2),
  Q4_K_M: row(0.58, 0.5, 1.15, -5),
  Q4_0: row(0.58, 0.5, 1.15, -5),
  Q3_K_M: row(0.48, 0.375, 1.25, -8),
  Q2_K: row(0.37, 0.25, 1.35, -12),
  "mlx-8bit": row(1, 1, 0.85, 0),
  "mlx-4bit": row(0.55, 0.5, 1.15, -4),
  "AWQ-4bit": row(0.5, 0.5, 1.2, -3),
  "GPTQ-Int4": row(0.5, 0.5, 1.2, -3),
  "AWQ-8bit": row(1, 1, 0.85, 0),
  "GPTQ-Int8": row(1, 1, 0.85, 0),
  "AutoRound-4bit": row(0.58, 0.5, 1.2, -3),
  "AutoRound-8bit": row(0.58, 1, 0.85, 0),
};
const UNKNOWN = row(0.58, 0.5, 1, -5);
const PLAIN: Readonly<Record<string, string>> = {
  2: "Q2_K",
  3: "Q3_K_M",
  4: "Q4_K_M",
  5: "Q5_K_M",
  6: "Q6_K",
  8: "Q8_0",
};

export function quantizationRow(name: string): QuantizationRow {
  const bits = /^UD-Q([234568])_K_(XL|L|M|S)$/.exec(name)?.[1];
  const plain = (bits === undefined ? undefined : PLAIN[bits]) ?? name;
  return Object.hasOwn(ROWS, plain) ? (ROWS[plain] ?? UNKNOWN) : UNKNOWN;
}

export const GGUF_LADDER = ["Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q3_K_M", "Q2_K"] as const;
export const MLX_LADDER = ["mlx-8bit", "mlx-4bit"] as const;

/** GB/s; the first name that is part of the GPU's counts. */
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

/** Undefined where no name matches: then speeds come from constants. */
export function bandwidthOf(gpu: string): number | undefined {
  const lower = gpu.slice(0, 256).toLowerCase();
  const isApple = lower.includes("apple");
  // "SXM4" and "HBM3" are no chips of Apple's.
  const rows = BANDWIDTH_ROWS.filter(({ name }) => isApple || !/^m\d\b/.test(name));
  return rows.find(({ name }) => lower.includes(name))?.gbps;
}

/** "32G", "32000M", "1.5T" in GiB; undefined for what is none. */
export function parseMemorySize(text: string): number | undefined {
  const [, number, unit = "g"] = /^\s*(\d+(?:\.\d+)?)\s*([gmt])?(?:i?b)?\s*$/i.exec(text.slice(0, 64)) ?? [];
  if (number === undefined) return undefined;
  const factor = { g: 1, m: 1 / 1024, t: 1024 }[unit.toLowerCase()];
  return factor === undefined ? undefined : Number(number) * factor;
}

/** Points for coding, reasoning and chat; the longest name that is part of the model's counts. */
export const TASK_SCORES: readonly (readonly [
  family: string,
  coding: number,
  reasoning: number,
  chat: number,
])[] = [
  ["qwen3.5-coder", 90, 78, 72],
  ["qwen3-coder", 90, 78, 72],
  ["qwen2.5-coder", 90, 78, 72],
  ["qwen3.5", 82, 84, 82],
  ["qwen3", 78, 80, 78],
  ["deepseek-v4", 90, 92, 84],
  ["deepseek-v3", 86, 88, 82],
  ["deepseek-r1", 84, 93, 76],
  ["deepseek-r2", 84, 93, 76],
  ["llama-4", 74, 80, 84],
  ["llama-3.3", 70, 76, 82],
  ["gemma-4", 72, 76, 84],
  ["gemma-3", 68, 72, 80],
  ["phi-4", 74, 82, 72],
  ["codestral", 84, 68, 62],
  ["devstral", 86, 70, 60],
  ["mixtral", 66, 72, 74],
  ["mistral", 68, 70, 76],
  ["glm-4", 80, 82, 78],
  ["kimi", 78, 84, 80],
  ["granite", 70, 72, 70],
  ["starcoder", 78, 55, 50],
  ["olmo", 62, 66, 70],
];
