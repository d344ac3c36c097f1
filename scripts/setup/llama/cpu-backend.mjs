/** Selects the CPU backend of ggml for this processor; its own search does not look into a private prefix. */

/** Best first, each with the processor flags it needs. */
const X86 = [
  ["icelake", ["avx512f", "avx512_vbmi", "avx512_vnni"]],
  ["skylakex", ["avx512f", "avx512bw", "avx512dq", "avx512vl"]],
  ["haswell", ["avx2", "fma", "f16c", "bmi2"]],
  ["sandybridge", ["avx"]],
  ["sse42", ["sse4_2"]],
  ["x64", []],
];
const ARM = [
  ["armv8.2_2", ["asimddp", "asimdhp"]],
  ["armv8.2_1", ["asimddp"]],
  ["armv8.0_1", []],
];

/** Pure: a file name out of `files`, or undefined. */
export function chooseCpuBackend(files, cpuinfo) {
  const flags = new Set((cpuinfo.match(/^(?:flags|Features)\s*:\s*(.*)$/m)?.[1] ?? "").split(/\s+/));
  const runnable = [...X86, ...ARM].filter(([, needed]) => needed.every((flag) => flags.has(flag)));
  return runnable.map(([name]) => `libggml-cpu-${name}.so`).find((name) => files.includes(name));
}
