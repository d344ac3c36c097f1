/** The hardware of a Host, as its agent reports it. Pure. */
import type { Host } from "../../api/host.ts";
import { type Devices, deviceClassOf } from "./devices.ts";
import { reportedGpu } from "./reported.ts";

/** Hosts are read often, and a watch delivers a new object with each change. */
const classes = new WeakMap<Host, { readonly deviceClass: string | undefined }>();

/** Undefined until the agent has reported the chip. */
export function deviceClassOfHost(host: Host): string | undefined {
  const known = classes.get(host) ?? { deviceClass: deviceClassOf(devicesOfHost(host)) };
  classes.set(host, known);
  return known.deviceClass;
}

/** Total for any status; empty before the first report. */
export function devicesOfHost({ status }: Pick<Host, "status">): Devices {
  const {
    chip,
    gpuCores,
    gpus = [],
    memoryBytes,
    performanceCores = 0,
    efficiencyCores = 0,
  } = status?.info ?? {};
  const cores = performanceCores + efficiencyCores || undefined;
  const cpu = { name: chip, cores, avx512: status?.info?.avx512 };
  const [, generation] = /^Apple (M\d{1,2})\b/.exec(chip ?? "") ?? [];
  if (generation === undefined) return { gpu: reportedGpu(gpus), cpu };
  return {
    gpu: {
      vendor: "Apple",
      product: chip,
      bytesEach: status?.memory?.totalBytes ?? memoryBytes,
      arch: `apple-${generation.toLowerCase()}`,
      count: 1,
      cores: gpuCores || undefined,
    },
    cpu,
  };
}
