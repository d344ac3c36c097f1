/** Labels that describe the hardware of a Node or a Host. Pure. */
import { GROUP } from "../../api/group.ts";
import { type Devices, deviceClassOf } from "./devices.ts";

export const DEFAULT_LABEL_PREFIX = `${GROUP}/`;

const GIB = 1024 ** 3;
const LABEL_VALUE = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;

const LABELS: Readonly<Record<string, (devices: Devices) => string | number | boolean | undefined>> = {
  "gpu.vendor": ({ gpu }) => gpu?.vendor,
  "gpu.vram": ({ gpu: { bytesEach = 0 } = {} }) =>
    bytesEach < GIB ? undefined : `${Math.floor(bytesEach / GIB)}Gi`,
  "gpu.arch": ({ gpu }) => gpu?.arch,
  "gpu.int4": ({ gpu }) => gpu?.int4,
  "gpu.count": ({ gpu }) => gpu?.count,
  "cpu.avx512": ({ cpu }) => cpu?.avx512,
  "device-class": deviceClassOf,
};

/** `prefix` ends with a slash. An unknown fact has no label. */
export function labelsOf(devices: Devices, prefix: string): Readonly<Record<string, string>> {
  const labels = Object.entries(LABELS).map(([name, of]) => [`${prefix}${name}`, String(of(devices) ?? "")]);
  return Object.fromEntries(labels.filter(([, value = ""]) => LABEL_VALUE.test(value)));
}
