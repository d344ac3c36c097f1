/** The hardware of a cluster node, from ResourceSlices, labels and the report of `metalbridge node`, in this order. Pure. */
import { parseQuantity } from "../../api/fields/quantity.ts";
import type { NodeReport } from "../../api/node-report.ts";
import type { ResourceSlice } from "../../kube/workload-objects.ts";
import type { Devices, Gpu } from "./devices.ts";
import { type LabeledNode, labeledGpu, NODE_GPU_VENDORS } from "./labeled.ts";
import { reportedGpu } from "./reported.ts";
import { slicedGpu } from "./sliced.ts";

/**
 * Total for any input: invalid values are absent. `slices` are those of this node. The report adds GPUs only if no labeler runs.
 */
export function devicesOfNode(
  node: LabeledNode,
  slices: readonly ResourceSlice[],
  report: Pick<NodeReport, "cpu" | "gpus"> | undefined,
): Devices {
  const cores = report?.cpu.cores ?? Math.floor(parseQuantity(node.status?.capacity?.cpu ?? "") ?? 0);
  return {
    gpu: gpuOf(node, slices, report),
    cpu: {
      name: report?.cpu.name,
      cores: cores > 0 ? cores : undefined,
      avx512: avx512In(node.metadata.labels ?? {}) ?? report?.cpu.avx512,
    },
  };
}

function gpuOf(
  node: LabeledNode,
  slices: readonly ResourceSlice[],
  report: Pick<NodeReport, "gpus"> | undefined,
): Gpu | undefined {
  const reported = reportedGpu(report?.gpus ?? []);
  const found = NODE_GPU_VENDORS.flatMap((vendor) => {
    const published = slicedGpu(slices, vendor);
    const labeled = labeledGpu(node, vendor);
    if (published !== undefined) return withArchitecture(published, labeled?.gpu);
    if (labeled === undefined) return [];
    const isDescribed = labeled.hasLabeler || labeled.gpu.isSliced;
    return isDescribed || reported?.vendor !== vendor ? labeled.gpu : reported;
  });
  const [gpu = reported] = found;
  const vendors = new Set(
    [...found, ...(reported === undefined ? [] : [reported])].map(({ vendor }) => vendor),
  );
  return gpu && vendors.size > 1 ? { ...gpu, hasOtherVendors: true } : gpu;
}

/** ResourceSlices of AMD's driver have no architecture. */
function withArchitecture(published: Gpu, labeled: Gpu | undefined): Gpu {
  if (published.arch !== undefined || published.product === undefined) return published;
  return { ...published, arch: labeled?.arch, int4: labeled?.int4 };
}

const CPUID = "feature.node.kubernetes.io/cpu-cpuid.";

/** NFD has no label for a missing feature. */
function avx512In(labels: Readonly<Record<string, string>>): boolean | undefined {
  if (labels[`${CPUID}AVX512F`] === "true") return true;
  return Object.keys(labels).some((key) => key.startsWith(CPUID)) ? false : undefined;
}
