/** llmfit's `system` object: from a Host or a report, with overrides, and as the scores use it. Pure. */
import type { ReportedGpu } from "../../src/api/fields/reported-gpu.ts";
import type { Host } from "../../src/api/host.ts";
import type { NodeReport } from "../../src/api/node-report.ts";
import { GPU_VENDORS, mainGpu } from "../scoring/gpus.ts";
import type { MachineRead } from "../scoring/machine.ts";
import { gibOf, round } from "../scoring/units.ts";

/** llmfit's `system` object: GB are GiB, with two decimals. */
export interface System {
  readonly total_ram_gb: number;
  readonly available_ram_gb: number;
  readonly cpu_cores: number;
  readonly cpu_name: string;
  readonly has_gpu: boolean;
  readonly gpu_vram_gb: number | null;
  readonly gpu_name: string | null;
  readonly gpu_count: number;
  readonly unified_memory: boolean;
  readonly backend: string;
  readonly gpus: readonly {
    readonly name: string;
    readonly vram_gb: number | null;
    readonly backend: string;
    readonly count: number;
    readonly unified_memory: boolean;
  }[];
}

const MAX_CORES = 65_536;
/** Share of overridden memory that llmfit counts as free. */
const FREE_SHARE = 0.9;
export const WITHOUT_GPU = {
  has_gpu: false,
  gpu_vram_gb: null,
  gpu_name: null,
  gpu_count: 0,
  unified_memory: false,
  gpus: [],
};

/** The GPU fields of `system`. */
function gpusInSystem(
  found: readonly ReportedGpu[],
  machineBytes: number | undefined,
  arch: string | undefined,
) {
  const main = mainGpu(found);
  const gpus = found.map((gpu) => ({
    name: gpu.name,
    vram_gb: gibOf(gpu.unified ? machineBytes : gpu.memoryBytes) ?? null,
    backend: GPU_VENDORS[gpu.vendor].backend,
    count: gpu.count,
    unified_memory: gpu.unified,
  }));
  const first = gpus[main === undefined ? -1 : found.indexOf(main)];
  return {
    has_gpu: first !== undefined,
    gpu_vram_gb: first?.vram_gb ?? null,
    gpu_name: first?.name ?? null,
    gpu_count: gpus.reduce((sum, { count }) => sum + coreCountOf(count), 0),
    unified_memory: first?.unified_memory ?? false,
    backend: first?.backend ?? cpuBackend(arch),
    gpus,
  };
}

export function hostSystem({ status }: Host, machine: MachineRead): System {
  const { info = {}, memory = {} } = status ?? {};
  const { chip = "", performanceCores = 0, efficiencyCores = 0 } = info;
  const base = {
    total_ram_gb: gibOf(memory.totalBytes ?? info.memoryBytes) ?? 0,
    available_ram_gb: gibOf(memory.availableBytes) ?? 0,
    cpu_cores: coreCountOf(performanceCores + efficiencyCores),
    cpu_name: chip,
  };
  if (info.os === "linux")
    return { ...base, ...gpusInSystem(info.gpus ?? [], memory.totalBytes ?? info.memoryBytes, info.arch) };
  const gpu_vram_gb = machine.at === "known" ? (gibOf(machine.machine.budgetBytes) ?? null) : null;
  const gpu = {
    name: chip === "" ? "Apple Silicon" : chip,
    backend: "Metal",
    count: 1,
    unified_memory: true,
  };
  return {
    ...base,
    has_gpu: true,
    gpu_vram_gb,
    gpu_name: gpu.name,
    gpu_count: 1,
    unified_memory: true,
    backend: gpu.backend,
    gpus: [{ ...gpu, vram_gb: gpu_vram_gb }],
  };
}

export function coreCountOf(value: number | undefined): number {
  return value !== undefined && value > 0 && value <= MAX_CORES ? Math.floor(value) : 0;
}

export function cpuBackend(arch: string | undefined): string {
  return arch === "arm64" || arch === "aarch64" ? "CPU (ARM)" : "CPU (x86)";
}

/** llmfit's name for the program that reads this source. */
export function llmfitRuntimeOf(source: string): string {
  if (source.startsWith("ollama:")) return "ollama";
  return /\.gguf\b|gguf$/i.test(source.slice(0, 2048)) ? "llamacpp" : "mlx";
}

/** GiB and cores that replace the detected values. */
export interface Overrides {
  readonly ramGb?: number | undefined;
  readonly vramGb?: number | undefined;
  readonly cpuCores?: number | undefined;
}

/** Like llmfit: memory first, then GPU memory, for which a machine without a GPU gets one. */
export function withOverrides(system: System, { ramGb, vramGb, cpuCores }: Overrides): System {
  let changed = system;
  if (ramGb !== undefined) {
    changed = { ...changed, total_ram_gb: ramGb, available_ram_gb: round(ramGb * FREE_SHARE, 2) };
    if (changed.unified_memory) changed = withVram(changed, ramGb);
  }
  if (vramGb !== undefined) changed = withVram(changed.has_gpu ? changed : withSomeGpu(changed), vramGb);
  return cpuCores === undefined ? changed : { ...changed, cpu_cores: cpuCores };
}

function withVram(system: System, vramGb: number): System {
  const [first, ...others] = system.gpus;
  const gpus = first === undefined ? [] : [{ ...first, vram_gb: vramGb }, ...others];
  return { ...system, gpu_vram_gb: vramGb, gpus };
}

function withSomeGpu(system: System): System {
  const backend = system.backend === "CPU (ARM)" ? "Metal" : "CUDA";
  const gpu = { name: "User-specified GPU", vram_gb: null, backend, count: 1, unified_memory: false };
  return { ...system, has_gpu: true, gpu_name: gpu.name, gpu_count: 1, backend, gpus: [gpu] };
}

const BACKENDS = ["Metal", "CUDA", "ROCm", "Vulkan", "SYCL"] as const;

/** The input of the scores. A GPU with unknown memory does not count. */
export function scoredSystem(system: System): LlmfitSystem {
  const { gpus, gpu_vram_gb, backend } = system;
  const base = {
    availableRamGb: system.available_ram_gb,
    cpuCores: system.cpu_cores,
    isArm: backend === "CPU (ARM)" || backend === "Metal",
  };
  if (!system.has_gpu || gpu_vram_gb === null) return base;
  const all = gpus.reduce((sum, { vram_gb, count }) => sum + (vram_gb ?? 0) * count, 0);
  return {
    ...base,
    gpu: {
      name: system.gpu_name ?? "",
      vramGb: system.unified_memory ? gpu_vram_gb : Math.max(gpu_vram_gb, all),
      isUnified: system.unified_memory,
      backend: BACKENDS.find((one) => one === backend) ?? "Vulkan",
    },
  };
}

/** llmfit's `system` object: GB are GiB, with two decimals. */
export function systemOfReport(report: NodeReport): System {
  const { memory, cpu, gpus } = report;
  return {
    total_ram_gb: gibOf(memory?.totalBytes) ?? 0,
    available_ram_gb: gibOf(memory?.availableBytes ?? memory?.totalBytes) ?? 0,
    cpu_cores: coreCountOf(cpu.cores),
    cpu_name: cpu.name ?? cpu.arch ?? "",
    ...gpusInSystem(gpus, memory?.totalBytes, cpu.arch),
  };
}

/** The machine as llmfit's formulas use it; GiB. */
export interface LlmfitSystem {
  readonly availableRamGb: number;
  readonly cpuCores: number;
  readonly isArm: boolean;
  readonly gpu?: {
    readonly name: string;
    readonly vramGb: number;
    readonly isUnified: boolean;
    readonly backend: "Metal" | "CUDA" | "ROCm" | "Vulkan" | "SYCL";
  };
}
