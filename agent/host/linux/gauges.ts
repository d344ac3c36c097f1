/** Temperature and utilization of the GPUs of a Linux machine: NVIDIA by nvidia-smi, AMD and Intel by the files of their drivers. */
import { join } from "node:path";
import type { RunCommand } from "../../../src/util/command.ts";
import { readKernelFile } from "./cgroup.ts";
import { entriesOf, findLinuxGpus } from "./gpus.ts";
import type { HardwareRoots } from "./roots.ts";
import { isSameBus, queryNvidia } from "./vendor.ts";

export interface GpuGauge {
  /** PCI address. */
  readonly gpu: string;
  readonly temperatureCelsius?: number | undefined;
  /** From 0 to 1. */
  readonly utilization?: number | undefined;
}

const MAX_CELSIUS = 150;

/** Runs nvidia-smi at most once, and only on a machine with NVIDIA's GPUs. Invalid values are dropped. */
export async function readGpuGauges(roots: HardwareRoots, run: RunCommand): Promise<readonly GpuGauge[]> {
  const { gpus } = findLinuxGpus(roots);
  const hasNvidia = gpus.some(({ vendor }) => vendor === "nvidia");
  const rows = hasNvidia
    ? ((await queryNvidia(run, "pci.bus_id,temperature.gpu,utilization.gpu")) ?? [])
    : [];
  return gpus.map(({ bus, vendor }) => {
    if (vendor !== "nvidia") return readFiles(bus, join(roots.sys, "bus/pci/devices", bus));
    const [, celsius, percent] = rows.find(([address = ""]) => isSameBus(address, bus)) ?? [];
    return gauge(bus, celsius, 1, percent);
  });
}

function readFiles(gpu: string, device: string): GpuGauge {
  const folder = join(device, "hwmon");
  const monitors = entriesOf(folder).map((name) => join(folder, name));
  // The driver xe has no temp1.
  const files = monitors.flatMap((monitor) => [join(monitor, "temp1_input"), join(monitor, "temp2_input")]);
  const millidegrees = files
    .map((file) => readKernelFile(file))
    .find((text) => numberIn(text, MAX_CELSIUS * 1_000) !== undefined);
  return gauge(gpu, millidegrees, 1_000, readKernelFile(join(device, "gpu_busy_percent")));
}

function gauge(
  gpu: string,
  temperature: string | undefined,
  perCelsius: number,
  percent: string | undefined,
): GpuGauge {
  const celsius = numberIn(temperature, MAX_CELSIUS * perCelsius);
  const busy = numberIn(percent, 100);
  return {
    gpu,
    temperatureCelsius: celsius === undefined ? undefined : celsius / perCelsius,
    utilization: busy === undefined ? undefined : busy / 100,
  };
}

function numberIn(text: string | undefined, most: number): number | undefined {
  const value = /^\d{1,7}$/.test(text?.trim() ?? "") ? Number(text) : undefined;
  return value !== undefined && value <= most ? value : undefined;
}
