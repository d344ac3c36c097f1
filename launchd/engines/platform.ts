/** Reads the platforms of a program from its first bytes, without running it. */
import { open } from "node:fs/promises";

const MAX_BYTES = 4_096;
const ELF_MACHINES: Readonly<Record<number, string>> = { 62: "x64", 183: "arm64" };
const MACH_O_CPUS: Readonly<Record<number, string>> = { 16777223: "x64", 16777228: "arm64" };
const FAT_ENTRY = 20;

/** Node's platforms and architectures, such as darwin-arm64. Undefined for a script, which runs on any machine. */
export async function platformsOf(program: string): Promise<readonly string[] | undefined> {
  const file = await open(program, "r");
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(MAX_BYTES), 0, MAX_BYTES, 0);
    return platformsIn(buffer.subarray(0, bytesRead));
  } finally {
    await file.close();
  }
}

function platformsIn(head: Buffer): readonly string[] | undefined {
  if (head.subarray(0, 2).toString("latin1") === "#!") return undefined;
  const magic = head.length < 20 ? 0 : head.readUInt32BE(0);
  switch (magic) {
    case 0x7f454c46:
      return [`linux-${ELF_MACHINES[head.readUInt16LE(18)] ?? "another processor"}`];
    case 0xcffaedfe:
      return [macOn(head.readUInt32LE(4))];
    case 0xcafebabe: {
      const count = Math.min(head.readUInt32BE(4), Math.floor((head.length - 8) / FAT_ENTRY));
      return Array.from({ length: count }, (_, index) => macOn(head.readUInt32BE(8 + index * FAT_ENTRY)));
    }
    default:
      return ["another system"];
  }
}

function macOn(cpu: number): string {
  return `darwin-${MACH_O_CPUS[cpu] ?? "another processor"}`;
}
