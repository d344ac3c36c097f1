/** The machine to check models for: a Host of the cluster, a machine described by flags, or this machine. */
import { execFile } from "node:child_process";
import { cpus, hostname, totalmem } from "node:os";
import { promisify } from "node:util";
import {
  type Machine,
  type MachineInput,
  type MachineRead,
  machineOf,
  readMachine,
} from "../../fitness/scoring/machine.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { parseQuantity } from "../../src/api/fields/quantity.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import { type BenchmarkTable, NO_BENCHMARKS } from "../../src/capacity/benchmark/table.ts";
import { hostBudget } from "../../src/capacity/placement/budget.ts";
import { hostAccelerator } from "../../src/engines/registry.ts";
import { readBenchmarkTable } from "../cluster/benchmarks.ts";
import { withCluster } from "../cluster/cluster.ts";
import { findObject } from "../cluster/find.ts";
import type { ClusterFlags } from "../cluster/flags.ts";

export interface MachineFlags {
  readonly host?: string;
  readonly memory?: string;
  readonly chip?: string;
  readonly gpuCores?: number;
}

interface FitMachine {
  readonly machine: Machine;
  /** Measured speeds of the cluster, if the machine is a Host. */
  readonly benchmarks: BenchmarkTable;
}

/** Throws `MachineUnusable` if the machine description is invalid. */
export async function machineFor(flags: MachineFlags, clusterFlags: ClusterFlags): Promise<FitMachine> {
  const { read, benchmarks } = await readFor(flags, clusterFlags);
  if (read.at === "known") return { machine: read.machine, benchmarks };
  throw new MetalbridgeError("MachineUnusable", read.why);
}

async function readFor(flags: MachineFlags, clusterFlags: ClusterFlags) {
  const { host } = flags;
  if (host === undefined) return { read: await readDescribed(flags), benchmarks: NO_BENCHMARKS };
  return withCluster("fit", clusterFlags, async (cluster) => ({
    read: machineOf(await findObject(cluster, HOSTS, host)),
    benchmarks: (await readBenchmarkTable(cluster)) ?? NO_BENCHMARKS,
  }));
}

async function readDescribed({ memory, chip, gpuCores }: MachineFlags): Promise<MachineRead> {
  if (memory === undefined && chip === undefined) {
    const machine = await thisMachine();
    return readMachine({ ...machine, gpuCores: gpuCores ?? machine.gpuCores });
  }
  const memoryBytes = parseQuantity(memory ?? "");
  if (memoryBytes === undefined)
    return { at: "unusable", why: `--memory ${memory ?? "is missing: it"} must be a size such as 32Gi` };
  return readMachine({
    name: `${chip ?? "machine"} with ${memory}`,
    chip: chip ?? "",
    accelerator: hostAccelerator(chip === undefined ? "linux" : "darwin"),
    gpuCores,
    ...memoryOf(memoryBytes),
  });
}

async function thisMachine(): Promise<MachineInput> {
  return {
    name: hostname(),
    chip: cpus()[0]?.model ?? "",
    accelerator: hostAccelerator(process.platform),
    cpuCores: cpus().length,
    gpuCores: process.platform === "darwin" ? await readGpuCores() : undefined,
    ...memoryOf(totalmem()),
  };
}

/** The default memory limit of the GPU. For a CPU, the same share is reserved for other programs. */
function memoryOf(totalBytes: number): Pick<MachineInput, "memoryBytes" | "budgetBytes"> {
  const memory = { evictionEnabled: true };
  const spec = { addresses: [], unschedulable: false, drain: false, memory };
  const budget = hostBudget({ spec, status: { memory: { totalBytes } } });
  return { memoryBytes: totalBytes, budgetBytes: budget.known ? budget.bytes : undefined };
}

/** Chips with different core counts share a name, so the number of cores decides the bandwidth. */
async function readGpuCores(): Promise<number | undefined> {
  const args = ["-r", "-d", "1", "-w", "0", "-c", "IOAccelerator"];
  const { stdout } = await promisify(execFile)("/usr/sbin/ioreg", args, { timeout: 5_000 }).catch(() => ({
    stdout: "",
  }));
  const cores = Number(/"gpu-core-count" = (\d+)/.exec(stdout)?.[1]);
  return Number.isInteger(cores) ? cores : undefined;
}
