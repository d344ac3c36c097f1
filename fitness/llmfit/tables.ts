/** Tables of llmfit 1.1.10: quantizations and families, with its errors. Pure. */

export interface QuantizationRow {
  /** Bytes per parameter, for memory and mixtures. */
  readonly memory: number;
  /** Bytes per parameter for the speed of dense models. */
  readonly speed: number;
  /** Speed factor if the bandwidth is unknown. */
  readonly factor: number;
  readonly penalty: number;
}

const row = (memory: number, speed: number, factor: number, penalty: number): QuantizationRow => ({
  memory,
  speed,
  factor,
  penalty,
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

/** Points for coding, reasoning and chat; the longest name that is part of the model's name applies. */
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
