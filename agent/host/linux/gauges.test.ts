/**
 * Temperatures as the vendors' tools and drivers write them, replayed without a GPU. The formats: `nvidia-smi --help-query-gpu` for the
 * CSV of NVIDIA's, the kernel's documentation of amdgpu (hwmon: temp1 edge, temp2 junction, temp3 memory, in millidegrees) and of
 * xe and i915 (ABI sysfs-driver-intel-*-hwmon) for the others. rocm-smi reads the same files of amdgpu as we do.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { readGpuGauges } from "./gauges.ts";
import { rootsUnder } from "./roots.ts";
import { isSameBus } from "./vendor.ts";

async function read(tree: Readonly<Record<string, string>>, smi?: string) {
  await using folder = await temporaryFolder();
  for (const [path, text] of Object.entries(tree)) {
    mkdirSync(dirname(join(folder.path, path)), { recursive: true });
    writeFileSync(join(folder.path, path), text);
  }
  return readGpuGauges(rootsUnder(folder.path), async () => smi);
}

const nvidia = (...buses: string[]) => ({
  "dev/nvidiactl": "",
  ...Object.fromEntries(
    buses.map((bus) => [`proc/driver/nvidia/gpus/${bus}/information`, "Model: NVIDIA H100\n"]),
  ),
});

test.each<[string, number | undefined, number | undefined, string]>([
  ["a busy GPU", 71, 0.98, "00000000:17:00.0, 71, 98"],
  ["an idle one", 28, 0, "00000000:17:00.0, 28, 0"],
  ["a MIG GPU, whose utilization is not reported", 33, undefined, "00000000:17:00.0, 33, [N/A]"],
  [
    "a vGPU, which has no sensor",
    undefined,
    0.12,
    "00000000:02:00.0, [N/A], 12\n00000000:17:00.0, [N/A], 12",
  ],
  ["an older driver", undefined, undefined, "00000000:17:00.0, [Not Supported], [Not Supported]"],
  [
    "a GPU that has fallen off the bus",
    undefined,
    undefined,
    "00000000:17:00.0, [Unknown Error], [GPU is lost]",
  ],
  [
    "a GPU that must be reset",
    undefined,
    undefined,
    "00000000:17:00.0, [GPU requires reset], [GPU requires reset]",
  ],
  ["only another GPU", undefined, undefined, "00000000:65:00.0, 60, 5"],
  ["lines of Windows", 44, 0.03, "00000000:17:00.0, 44, 3\r\n"],
  [
    "an error instead of rows",
    undefined,
    undefined,
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
  ],
  ["units, which were not requested", undefined, undefined, "00000000:17:00.0, 44 C, 3 %"],
  ["a temperature that no GPU has", undefined, undefined, "00000000:17:00.0, 4294967295, 101"],
])("nvidia-smi reports %s", async (_, temperatureCelsius, utilization, smi) => {
  expect(await read(nvidia("0000:17:00.0"), smi)).toEqual([
    { gpu: "0000:17:00.0", temperatureCelsius, utilization },
  ]);
});

test("without nvidia-smi, a GPU of NVIDIA has no temperature", async () => {
  expect(await read(nvidia("0000:17:00.0"))).toEqual([{ gpu: "0000:17:00.0" }]);
});

test("GPUs that differ only in the domain of their address have their own temperatures", async () => {
  const smi = "00000001:00:00.0, 41, 10\n00000002:00:00.0, 52, 20\n00000018:01:00.0, 63, 30\n";
  const gauges = await read(nvidia("0001:00:00.0", "0002:00:00.0", "0018:01:00.0"), smi);
  expect(gauges.map(({ temperatureCelsius }) => temperatureCelsius)).toEqual([41, 52, 63]);
});

test.each<[boolean, string, string]>([
  [true, "00000000:17:00.0", "0000:17:00.0"],
  [true, "17:00.0", "0000:17:00.0"],
  [true, "0000:C1:00.0", "0000:c1:00.0"],
  [true, "0000000F:01:00.0", "000f:01:00.0"],
  [false, "00000001:00:00.0", "0002:00:00.0"],
  [false, "00000000:17:00.0", "0000:18:00.0"],
  [false, "", "0000:17:00.0"],
  [false, "not a row", "0000:17:00.0"],
])("it is %s that %j and %s are one device", (isSame, a, b) => {
  expect(isSameBus(a, b)).toBe(isSame);
});

const BUS = "0000:83:00.0";
const card = (vendor: string, driver: string) => ({
  "dev/dri/renderD128": "",
  "sys/class/drm/card0/device/vendor": `${vendor}\n`,
  "sys/class/drm/card0/device/uevent": `DRIVER=${driver}\nPCI_SLOT_NAME=${BUS}\n`,
});
const amd = card("0x1002", "amdgpu");
const device = (files: Readonly<Record<string, string>>) =>
  Object.fromEntries(
    Object.entries(files).map(([name, text]) => [`sys/bus/pci/devices/${BUS}/${name}`, text]),
  );
const sensor = (number: number, label: string, millidegrees: string) => ({
  [`hwmon/hwmon4/temp${number}_label`]: `${label}\n`,
  [`hwmon/hwmon4/temp${number}_input`]: `${millidegrees}\n`,
});

test.each<[string, number | undefined, number | undefined, Readonly<Record<string, string>>]>([
  [
    "amdgpu of a Radeon: the edge, not the hot spot",
    54,
    0.37,
    {
      ...amd,
      ...device({
        "hwmon/hwmon4/name": "amdgpu\n",
        ...sensor(1, "edge", "54000"),
        ...sensor(2, "junction", "67000"),
        ...sensor(3, "mem", "72000"),
        gpu_busy_percent: "37\n",
      }),
    },
  ],
  [
    "amdgpu of an MI300X, which has no edge sensor",
    45,
    0,
    {
      ...amd,
      ...device({ ...sensor(2, "junction", "45000"), ...sensor(3, "mem", "38000"), gpu_busy_percent: "0\n" }),
    },
  ],
  [
    "amdgpu whose first sensor is invalid",
    61,
    undefined,
    { ...amd, ...device({ ...sensor(1, "edge", "-273150"), ...sensor(2, "junction", "61000") }) },
  ],
  [
    "xe of an Arc: the package, which has no temp1",
    48.5,
    undefined,
    { ...card("0x8086", "xe"), ...device({ ...sensor(2, "pkg", "48500"), ...sensor(3, "vram", "52000") }) },
  ],
  [
    "i915 without sensors",
    undefined,
    undefined,
    { ...card("0x8086", "i915"), ...device({ "hwmon/hwmon4/name": "i915\n" }) },
  ],
  ["a driver without hwmon", undefined, 0.5, { ...amd, ...device({ gpu_busy_percent: "50\n" }) }],
  [
    "values that cannot be",
    undefined,
    undefined,
    { ...amd, ...device({ ...sensor(1, "edge", "151000"), gpu_busy_percent: "101\n" }) },
  ],
])("files of %s", async (_, temperatureCelsius, utilization, tree) => {
  expect(await read(tree)).toEqual([{ gpu: BUS, temperatureCelsius, utilization }]);
});
