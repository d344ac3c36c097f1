/** Completes facts about GPUs that no file has: with nvidia-smi and, on this machine's own files, with systeminformation's lspci. */
import type { RunCommand } from "../../../src/util/command.ts";
import type { FoundGpu } from "./gpus.ts";

const MIB = 1024 ** 2;
const MAX_MIB = 1024 ** 2;
const FIELDS = "pci.bus_id,memory.total,name";

/** Runs nvidia-smi, which alone knows memory and architecture of NVIDIA's GPUs. In a pod it works if the container runtime mounts the tool. */
export async function readVendorGpus(
  gpus: readonly FoundGpu[],
  run: RunCommand,
): Promise<readonly FoundGpu[]> {
  if (!gpus.some(({ vendor }) => vendor === "nvidia")) return gpus;
  // Drivers before 510 reject the whole query because of compute_cap.
  const rows = (await queryNvidia(run, `${FIELDS},compute_cap`)) ?? (await queryNvidia(run, FIELDS)) ?? [];
  return gpus.map((gpu) => {
    const row = rows.find(([bus = ""]) => isSameBus(bus, gpu.bus));
    if (row === undefined) return gpu;
    const [, mib, name, capability = ""] = row;
    const arch = /^\d{1,2}\.\d$/.test(capability) ? `sm_${capability.replace(".", "")}` : gpu.arch;
    return { ...complete(gpu, Number(mib), name), arch };
  });
}

/** One row of values for each GPU; undefined if the tool is missing or fails. */
export async function queryNvidia(
  run: RunCommand,
  fields: string,
): Promise<readonly (readonly string[])[] | undefined> {
  const text = await run("nvidia-smi", [`--query-gpu=${fields}`, "--format=csv,noheader,nounits"]);
  return text?.split("\n").map((line) => line.trim().split(", "));
}

/** Runs systeminformation only if facts are missing: it starts several programs, one after the other, and searches fixed paths only. */
export async function readSystemGpus(gpus: readonly FoundGpu[]): Promise<readonly FoundGpu[]> {
  if (!gpus.some(isIncomplete)) return gpus;
  const { default: systeminformation } = await import("systeminformation");
  const { controllers } = await systeminformation.graphics();
  return withControllers(gpus, controllers);
}

interface Controller {
  readonly busAddress?: string | undefined;
  readonly name?: string | undefined;
  readonly model?: string | undefined;
  /** In MiB; only nvidia-smi reports it. */
  readonly memoryTotal?: number | undefined;
}

/** Ignores `vram`, which on Linux is the largest window of the GPU on the PCI bus. */
export function withControllers(
  gpus: readonly FoundGpu[],
  controllers: readonly Controller[],
): readonly FoundGpu[] {
  return gpus.map((gpu) => {
    const found = controllers.find(({ busAddress = "" }) => isSameBus(busAddress, gpu.bus));
    if (found === undefined) return gpu;
    return complete(gpu, found.memoryTotal ?? Number.NaN, found.name ?? found.model);
  });
}

function isIncomplete({ memoryBytes, isNamed, unified }: FoundGpu): boolean {
  return !isNamed || (memoryBytes === undefined && !unified);
}

/** Facts from files take precedence. */
function complete(gpu: FoundGpu, mib: number, name: string | undefined): FoundGpu {
  const isSize = mib > 0 && mib <= MAX_MIB && !gpu.unified && gpu.memoryBytes === undefined;
  const isName = !gpu.isNamed && name !== undefined && name.trim() !== "";
  return {
    ...gpu,
    ...(isSize ? { memoryBytes: Math.floor(mib) * MIB } : {}),
    ...(isName ? { name: name.trim(), isNamed: true } : {}),
  };
}

/**
 * Tools write the domain with four digits, eight, or not at all. GPUs of cloud machines and of large servers may differ in it
 * alone.
 */
export function isSameBus(a: string, b: string): boolean {
  const [one, other] = [partsOf(a), partsOf(b)];
  const isSameDomain = Number.isNaN(one.domain) || Number.isNaN(other.domain) || one.domain === other.domain;
  return a !== "" && one.device === other.device && isSameDomain;
}

/** The domain is NaN if it is missing. */
function partsOf(bus: string): { readonly domain: number; readonly device: string } {
  const [, domain = "", device = bus] = /^(?:([0-9a-f]+):)?([0-9a-f]+:[^:]+)$/.exec(bus.toLowerCase()) ?? [];
  return { domain: Number.parseInt(domain, 16), device };
}
