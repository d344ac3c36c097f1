/** A memory claim, part by part. Pure. */
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import type { Section } from "./sections.ts";

const PARTS = [
  ["weightsBytes", "weights"],
  ["kvBytes", "KV cache"],
  ["computeBytes", "compute buffers"],
  ["outputBytes", "output buffers"],
  ["promptCacheBytes", "prompt cache"],
  ["projectorBytes", "projector"],
  ["draftBytes", "draft model"],
  ["loraBytes", "LoRA adapters"],
  ["overheadBytes", "process and margin"],
] as const;

export function memorySection({ spec, status }: InferenceReplica): Section {
  const { memory } = spec;
  const parts = PARTS.flatMap(([key, label]) =>
    memory[key] ? [[label, formatBytes(memory[key])] as const] : [],
  );
  const used = status?.memory?.footprintBytes;
  const rows = [
    ...parts,
    ["claim", formatBytes(memory.claimBytes)] as const,
    ...(used === undefined ? [] : [["measured", formatBytes(used)] as const]),
  ];
  const labels = Math.max(...rows.map(([label]) => label.length));
  const sizes = Math.max(...rows.map(([, size]) => size.length));
  return {
    title: "Memory",
    lines: rows.map(([label, size]) => `${label.padEnd(labels)}  ${size.padStart(sizes)}`),
  };
}
