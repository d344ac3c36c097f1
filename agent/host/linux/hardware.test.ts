/** The hardware reader on trees of /proc, /sys, /dev and /run/udev as machines have them, and as liars would. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { readGpuGauges } from "./gauges.ts";
import { createHardwareReader } from "./hardware.ts";
import { rootsUnder } from "./roots.ts";
import { withControllers } from "./vendor.ts";

const GIB = 1024 ** 3;
const MEMORY = "MemTotal:       65806196 kB\nMemFree:         1000000 kB\nMemAvailable:   48231128 kB\n";
const XEON = [0, 1, 2, 3]
  .map((at) => `processor\t: ${at}\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Gold 6330\n`)
  .join("\n");
const SERVER = { "proc/meminfo": MEMORY, "proc/cpuinfo": XEON };

type Tree = Readonly<Record<string, string>>;

const uevent = (driver: string, bus: string) => `DRIVER=${driver}\nPCI_CLASS=30000\nPCI_SLOT_NAME=${bus}\n`;

const NVIDIA: Tree = {
  "dev/nvidiactl": "",
  "proc/driver/nvidia/gpus/0000:17:00.0/information":
    "Model: \t\t NVIDIA A100-SXM4-80GB\nIRQ:   \t\t 512\nBus Location: \t 0000:17:00.0\n",
  "proc/driver/nvidia/gpus/0000:65:00.0/information": "Model: \t\t NVIDIA A100-SXM4-80GB\n",
  "sys/class/drm/card1/device/vendor": "0x10de\n",
  "sys/class/drm/card1/device/uevent": uevent("nvidia", "0000:17:00.0"),
  "sys/class/drm/card1-DP-1/status": "disconnected\n",
  // The board's management controller.
  "sys/class/drm/card0/device/vendor": "0x1a03\n",
};

const AMD: Tree = {
  "dev/dri/renderD128": "",
  "sys/class/drm/card0/device/vendor": "0x1002\n",
  "sys/class/drm/card0/device/uevent": uevent("amdgpu", "0000:03:00.0"),
  "sys/class/drm/card0/device/mem_info_vram_total": `${24 * GIB}\n`,
  "run/udev/data/+pci:0000:03:00.0":
    "E:ID_VENDOR_FROM_DATABASE=AMD\nE:ID_MODEL_FROM_DATABASE=Radeon RX 7900 XTX\n",
};

const INTEL: Tree = {
  "dev/dri/renderD128": "",
  "sys/class/drm/card0/device/vendor": "0x8086\n",
  "sys/class/drm/card0/device/uevent": uevent("i915", "0000:00:02.0"),
  "sys/class/drm/card1/device/vendor": "0x8086\n",
  "sys/class/drm/card1/device/uevent": uevent("xe", "0000:03:00.0"),
  "sys/class/drm/card1/device/tile0/physical_vram_size_bytes": `${16 * GIB}\n`,
  "run/udev/data/+pci:0000:03:00.0": "E:ID_MODEL_FROM_DATABASE=DG2 [Arc A770]\n",
};

function writeTree(folder: string, tree: Tree): void {
  for (const [path, text] of Object.entries(tree)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
}

async function read(tree: Tree, smi?: string) {
  await using folder = await temporaryFolder();
  writeTree(folder.path, tree);
  const asked: string[] = [];
  const reader = createHardwareReader(rootsUnder(folder.path), async (program) => {
    asked.push(program);
    return smi;
  });
  const { leftOut, ...found } = await reader.read();
  return { ...found, leftOut: leftOut.map((why) => why.replaceAll(folder.path, "")), asked };
}

test("a server without GPUs: memory and processor, and no program is asked", async () => {
  expect(await read(SERVER)).toEqual({
    memory: { totalBytes: 65_806_196 * 1024, availableBytes: 48_231_128 * 1024 },
    cpu: { name: "Intel(R) Xeon(R) Gold 6330", cores: 4, arch: expect.stringMatching(/^(amd64|arm64)$/) },
    gpus: [],
    leftOut: [],
    asked: [],
  });
});

test("NVIDIA's memory is known to its tool alone, under whatever address the tool gives", async () => {
  const smi =
    "00000000:17:00.0, 81920, NVIDIA A100-SXM4-80GB\n00000000:65:00.0, 81920, NVIDIA A100-SXM4-80GB\n";
  const a100 = { vendor: "nvidia", name: "NVIDIA A100-SXM4-80GB", unified: false, count: 2 };
  const { gpus, leftOut } = await read({ ...SERVER, ...NVIDIA }, smi);
  expect({ gpus, leftOut }).toEqual({ gpus: [{ ...a100, memoryBytes: 80 * GIB }], leftOut: [] });
  const without = await read({ ...SERVER, ...NVIDIA });
  expect(without.gpus).toEqual([a100]);
  expect(without.leftOut).toEqual([
    "GPU 0000:17:00.0: no file or tool reports its memory size",
    "GPU 0000:65:00.0: no file or tool reports its memory size",
  ]);
  for (const liar of [
    "00000000:17:00.0, -5, x\n",
    "00000000:17:00.0, [N/A], x\n",
    "17:00.0, 1e30, x\n",
    "\u0000",
  ])
    expect((await read({ ...SERVER, ...NVIDIA }, liar)).gpus).toEqual([a100]);
});

test("AMD's and Intel's GPUs are read from their drivers' files, with names from udev", async () => {
  const amd = await read({ ...SERVER, ...AMD });
  expect(amd).toMatchObject({ leftOut: [], asked: [] });
  expect(amd.gpus).toEqual([
    { vendor: "amd", name: "Radeon RX 7900 XTX", unified: false, memoryBytes: 24 * GIB, count: 1 },
  ]);
  expect((await read({ ...SERVER, ...INTEL })).gpus).toEqual([
    { vendor: "intel", name: "intel GPU", unified: true, count: 1 },
    { vendor: "intel", name: "DG2 [Arc A770]", unified: false, memoryBytes: 16 * GIB, count: 1 },
  ]);
});

test("GPUs that compute in the machine's memory say so, and have none of their own", async () => {
  const strix = { "proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD RYZEN AI MAX+ 395 w/ Radeon 8060S\n" };
  const small = { "sys/class/drm/card0/device/mem_info_vram_total": `${GIB / 2}\n` };
  const spark = {
    "dev/nvidiactl": "",
    "proc/driver/nvidia/gpus/000f:01:00.0/information": "Model: \t\t NVIDIA GB10\n",
  };
  for (const tree of [{ ...AMD, ...strix }, { ...AMD, ...small }, spark]) {
    const { gpus, leftOut } = await read({ ...SERVER, ...tree });
    expect(gpus).toMatchObject([{ unified: true }]);
    expect(gpus[0]).not.toHaveProperty("memoryBytes");
    expect(leftOut).toEqual([]);
  }
});

test("a GPU without a driver is left out with the reason; one whose memory a driver shows has it", async () => {
  const { "dev/dri/renderD128": _, ...inPod } = AMD;
  const found = await read({ ...SERVER, ...inPod });
  expect(found.gpus).toMatchObject([{ vendor: "amd", memoryBytes: 24 * GIB }]);
  const { "sys/class/drm/card0/device/mem_info_vram_total": __, ...without } = inPod;
  const { gpus, leftOut } = await read({ ...SERVER, ...without });
  expect(gpus).toEqual([]);
  expect(leftOut).toEqual(["GPU 0000:03:00.0 (amd): no /dev/dri, so its driver is not loaded"]);
});

test("an Intel card of which no file says the memory does not share the machine's", async () => {
  const { "sys/class/drm/card1/device/tile0/physical_vram_size_bytes": _, ...tree } = INTEL;
  const { gpus, leftOut } = await read({ ...SERVER, ...tree });
  expect(gpus).toMatchObject([{ unified: true }, { name: "DG2 [Arc A770]", unified: false }]);
  expect(gpus[1]).not.toHaveProperty("memoryBytes");
  expect(leftOut).toEqual(["GPU 0000:03:00.0: no file or tool reports its memory size"]);
});

test("lspci names a GPU, and its window on the bus is not taken for its memory", () => {
  const gpu = {
    vendor: "amd",
    bus: "0000:03:00.0",
    name: "amd GPU",
    isNamed: false,
    unified: false,
  } as const;
  const listed = { busAddress: "03:00.0", model: "Navi 31", vram: 256 };
  const named = { ...gpu, name: "Navi 31", isNamed: true };
  expect(withControllers([gpu], [listed])).toEqual([named]);
  expect(withControllers([gpu], [{ ...listed, memoryTotal: 24_576 }])).toEqual([
    { ...named, memoryBytes: 24 * GIB },
  ]);
});

test.each(["-1", "0", "NaN", "1e400", "99999999999999999999", "", "a".repeat(10_000)])(
  "a GPU whose memory is %s has none, with the reason",
  async (text) => {
    const path = "sys/class/drm/card0/device/mem_info_vram_total";
    const { gpus, leftOut } = await read({ ...SERVER, ...AMD, [path]: text });
    expect(gpus).toEqual([{ vendor: "amd", name: "Radeon RX 7900 XTX", unified: false, count: 1 }]);
    expect(leftOut[0]).toContain("GPU 0000:03:00.0: device/mem_info_vram_total says");
  },
);

test.each([
  ["MemTotal:  -5 kB\n", undefined, "memory: MemTotal of /proc/meminfo is missing"],
  ["MemTotal:  0 kB\n", undefined, "memory: MemTotal of /proc/meminfo is 0"],
  ["MemTotal:  NaN kB\n", undefined, "memory: MemTotal of /proc/meminfo is missing"],
  ["MemTotal:  99999999999999 kB\n", undefined, "memory: MemTotal of /proc/meminfo is 102399999999998980"],
  ["MemTotal:  1024 kB\nMemAvailable:  2048 kB\n", 2 ** 20, "memory: MemAvailable is 2097152"],
  ["", undefined, "memory: MemTotal of /proc/meminfo is missing"],
])("memory that cannot be is left out: %j", async (text, totalBytes, why) => {
  const found = await read({ "proc/meminfo": text, "proc/cpuinfo": "\u0000\n" });
  expect(found.memory).toEqual(totalBytes === undefined ? undefined : { totalBytes });
  expect(found.leftOut).toEqual([why]);
  expect(found.cpu).toEqual({ arch: expect.any(String) });
});

test("without processors in cpuinfo, their range in /sys counts", async () => {
  const tree = { "proc/meminfo": MEMORY, "sys/devices/system/cpu/present": "0-5,8\n" };
  expect((await read(tree)).cpu.cores).toBe(7);
});

test("the architecture comes from nvidia-smi, or from AMD's PCI ID, which also names a GPU without a name", async () => {
  const smi = "00000000:17:00.0, 81920, NVIDIA A100-SXM4-80GB, 8.0\n00000000:65:00.0, 81920, x, [N/A]\n";
  const nvidia = await read({ ...SERVER, ...NVIDIA }, smi);
  expect(nvidia.gpus.map(({ arch, count }) => [arch, count])).toEqual([
    ["sm_80", 1],
    [undefined, 1],
  ]);
  const { "run/udev/data/+pci:0000:03:00.0": _, ...nameless } = AMD;
  const { gpus } = await read({ ...SERVER, ...nameless, "sys/class/drm/card0/device/device": "0x744c\n" });
  expect(gpus).toMatchObject([{ name: "amd GPU 744c", arch: "gfx1100" }]);
});

test("a driver that does not know compute_cap still reports memory", async () => {
  await using folder = await temporaryFolder();
  writeTree(folder.path, { ...SERVER, ...NVIDIA });
  const reader = createHardwareReader(rootsUnder(folder.path), async (_, [query = ""]) =>
    query.includes("compute_cap") ? undefined : "17:00.0, 81920, x\n65:00.0, 81920, x\n",
  );
  expect((await reader.read()).gpus).toMatchObject([{ memoryBytes: 80 * GIB, count: 2 }]);
});

test.each([
  ["flags\t\t: fpu avx2 avx512f avx512bw\n", true],
  ["flags\t\t: fpu avx2\n", false],
  ["Features\t: fp asimd\n", undefined],
])("AVX-512 by the flags of the processor: %s", async (flags, expected) => {
  const { cpu } = await read({ ...SERVER, "proc/cpuinfo": `processor\t: 0\n${flags}` });
  expect(cpu.avx512).toBe(expected);
});

test("temperature and utilization: NVIDIA's by one call of nvidia-smi, AMD's and Intel's by files", async () => {
  await using folder = await temporaryFolder();
  const pci = "sys/bus/pci/devices";
  writeTree(folder.path, {
    ...NVIDIA,
    "dev/dri/renderD128": "",
    "sys/class/drm/card2/device/vendor": "0x1002\n",
    "sys/class/drm/card2/device/uevent": uevent("amdgpu", "0000:83:00.0"),
    [`${pci}/0000:83:00.0/hwmon/hwmon4/temp1_input`]: "61000\n",
    [`${pci}/0000:83:00.0/gpu_busy_percent`]: "37\n",
    "sys/class/drm/card3/device/vendor": "0x8086\n",
    "sys/class/drm/card3/device/uevent": uevent("xe", "0000:93:00.0"),
    [`${pci}/0000:93:00.0/hwmon/hwmon5/temp2_input`]: "48500\n",
  });
  const calls: (readonly string[])[] = [];
  const gauges = await readGpuGauges(rootsUnder(folder.path), async (_, args) => {
    calls.push(args);
    return "00000000:17:00.0, 71, 98\n00000000:65:00.0, [N/A], 900\n";
  });
  expect(gauges).toEqual([
    { gpu: "0000:17:00.0", temperatureCelsius: 71, utilization: 0.98 },
    { gpu: "0000:65:00.0" },
    { gpu: "0000:83:00.0", temperatureCelsius: 61, utilization: 0.37 },
    { gpu: "0000:93:00.0", temperatureCelsius: 48.5 },
  ]);
  expect(calls).toHaveLength(1);
});
