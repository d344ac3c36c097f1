/** The memory section of a description: the parts of the claim. Pure. */
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { claimParts } from "../program/claim-parts.ts";
import type { Section } from "./sections.ts";

export function memorySection({ spec, status }: InferenceReplica): Section {
  const { memory } = spec;
  const parts = claimParts(memory).map(([label, bytes]) => [label, formatBytes(bytes)] as const);
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
