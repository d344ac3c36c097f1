/** Combines a Node with the node's own report. Pure. */
import type { ReportedGpu } from "../../src/api/fields/reported-gpu.ts";
import type { NodeReport, NodeReportRead } from "../../src/api/node-report.ts";
import type { NodeGpus, NodeRead } from "../../src/capacity/fitness.ts";
import { GPU_VENDORS, mainGpu } from "./gpus.ts";
import { gibOf } from "./units.ts";

const GIB = 1024 ** 3;
/** Kubernetes counts the same memory; some is set aside at boot. */
const FURTHEST_APART = 2;

/** Adds the report's data to a node. A report that contradicts the Node makes the node unusable, with the reason. */
export function nodeAsReported(node: NodeRead, read: NodeReportRead | undefined): NodeRead {
  if (read === undefined) return node;
  if (read.at === "unusable") return { ...node, unusable: read.why };
  const { memory, cpu, gpus } = read.report;
  const gpu = gpuOf(node, gpus);
  const unusable =
    contradiction(memory?.totalBytes, node.totalBytes, "of memory") ??
    contradiction(gpu?.memoryBytes, node.gpus?.bytesEach, "in each GPU");
  if (unusable !== undefined) return { ...node, unusable };
  const { totalBytes } = memory ?? {};
  return {
    ...node,
    ...(totalBytes === undefined || node.totalBytes === undefined ? {} : limitedTo(totalBytes, node)),
    cores: cpu.cores ?? node.cores,
    gpus: node.gpus && gpusAsReported(node.gpus, gpu),
  };
}

/** The report's entry for the whole GPUs that a device plugin offers to pods. */
function gpuOf({ gpus: offered }: NodeRead, found: readonly ReportedGpu[]): ReportedGpu | undefined {
  if (offered === undefined || offered.isSliced) return undefined;
  return mainGpu(found.filter(({ vendor }) => GPU_VENDORS[vendor].accelerator === offered.accelerator));
}

/** A machine outside a cluster. Without a GPU of known dedicated memory it counts as a CPU machine. */
export function nodeOnlyReported(name: string, { memory, cpu, gpus }: NodeReport): NodeRead {
  const gpu = mainGpu(gpus.filter(({ unified, memoryBytes }) => !unified && memoryBytes !== undefined));
  return {
    name,
    hostname: name,
    arch: cpu.arch,
    cores: cpu.cores,
    totalBytes: memory?.totalBytes,
    allocatableBytes: memory?.availableBytes ?? memory?.totalBytes,
    gpus: gpu && { ...GPU_VENDORS[gpu.vendor], name: gpu.name, count: gpu.count, bytesEach: gpu.memoryBytes },
  };
}

function contradiction(
  said: number | undefined,
  known: number | undefined,
  what: string,
): string | undefined {
  if (said === undefined || known === undefined) return undefined;
  if (Math.max(said / known, known / said) <= FURTHEST_APART) return undefined;
  return `its node report says ${(said / GIB).toFixed(2)} GiB ${what}, its Node ${gibOf(known)} GiB`;
}

function limitedTo(totalBytes: number, { allocatableBytes = totalBytes }: NodeRead) {
  return { totalBytes, allocatableBytes: Math.min(allocatableBytes, totalBytes) };
}

/** The device plugin's count of GPUs, with the memory from the driver. */
function gpusAsReported(gpus: NodeGpus, gpu: ReportedGpu | undefined): NodeGpus {
  if (gpu?.memoryBytes === undefined) return gpus;
  return { ...gpus, name: gpu.name, bytesEach: gpu.memoryBytes };
}
