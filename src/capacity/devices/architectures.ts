/** Architectures of GPUs, and whether they compute on 4-bit integers. Pure. */
import type { Gpu } from "./devices.ts";

type Architecture = Pick<Gpu, "arch" | "int4">;

/** Turing is the first architecture whose tensor cores compute on 4-bit integers. */
const NVIDIA_INT4 = 75;

/** From the compute capability, for example 8 and 9. Empty if it is invalid. */
export function nvidiaArchitecture(major: string | undefined, minor: string | undefined): Architecture {
  if (!/^\d{1,2}$/.test(major ?? "") || !/^\d$/.test(minor ?? "")) return {};
  return { arch: `sm_${major}${minor}`, int4: Number(`${major}${minor}`) >= NVIDIA_INT4 };
}

/** LLVM's names by PCI device ID in hexadecimal digits. */
export const AMD_ARCHITECTURES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries({
    gfx900: "6860 6861 6862 6863 6864 687f",
    gfx906: "66a0 66a1 66a7 66af",
    gfx908: "7388 738c 738e",
    gfx90a: "7408 740c 740f 7410",
    gfx942: "74a0 74a1 74a2 74a5 74a8 74a9 74b5 74b6 74b9 74bd",
    gfx950: "75a0 75a3 75b0 75b3",
    gfx1010: "7310 7312 731f",
    gfx1030: "73a1 73a2 73a3 73a5 73ab 73ae 73af 73bf",
    gfx1031: "73df",
    gfx1032: "73e3 73ef 73ff",
    gfx1100: "7448 744a 744c 745e",
    gfx1101: "7470 747e",
    gfx1102: "7480 7483 7489",
    gfx1151: "1586",
    gfx1200: "7590",
    gfx1201: "7550 7551",
  }).flatMap(([arch, ids]) => ids.split(" ").map((id) => [id, arch])),
);

/** Architectures without dot products of 4-bit integers. */
const AMD_WITHOUT_INT4 = /^gfx([78]\d\d|90[0-2]|1010)$/;

export function amdInt4(arch: string | undefined): boolean | undefined {
  return arch === undefined ? undefined : !AMD_WITHOUT_INT4.test(arch);
}

const INTEL: readonly (readonly [RegExp, Architecture])[] = [
  [/\bMax[ _-]/i, { arch: "xe-hpc" }],
  [/\b(Flex[ _-]|Arc[ _-](Pro[ _-])?A\d)/i, { arch: "xe-hpg", int4: true }],
  [/\b(Arc[ _-](Pro[ _-])?)?B\d/i, { arch: "xe2-hpg", int4: true }],
];

/** From the name of a product or of a family, such as Max_1100 or Flex_Series. */
export function intelArchitecture(name: string | undefined): Architecture {
  return INTEL.find(([pattern]) => pattern.test(name?.replaceAll("_", " ") ?? ""))?.[1] ?? {};
}
