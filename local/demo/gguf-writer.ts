/** Writes GGUF version 3 files: metadata first, then tensors at aligned offsets, zeros left as holes in the file. */
import { open } from "node:fs/promises";

export type GgufWriteValue =
  | { readonly type: "u32" | "i32" | "f32"; readonly value: number }
  | { readonly type: "bool"; readonly value: boolean }
  | { readonly type: "string"; readonly value: string }
  | { readonly type: "strings"; readonly value: readonly string[] }
  | { readonly type: "u32s" | "i32s" | "f32s"; readonly value: readonly number[] };

export interface GgufWriteTensor {
  readonly name: string;
  /** Innermost dimension first, as in ggml. */
  readonly dimensions: readonly number[];
  readonly ggmlType: number;
  readonly sizeBytes: number;
  /** Bytes of the tensor. If absent, the tensor is zeros, which take no space on disk. */
  readonly data?: () => Uint8Array;
}

export interface GgufWriteInput {
  readonly metadata: ReadonlyMap<string, GgufWriteValue>;
  readonly tensors: readonly GgufWriteTensor[];
  /** Extends the file to this size with a hole after the tensors. */
  readonly padToBytes?: number;
}

const ALIGNMENT = 32;
const TYPE_IDS = { u32: 4, i32: 5, f32: 6, bool: 7, string: 8 } as const;
const ARRAY_TYPE = 9;

/** Writes the file and returns its size in bytes. */
export async function writeGguf(path: string, input: GgufWriteInput): Promise<number> {
  const offsets = layOut(input.tensors);
  const header = renderGgufHeader(input, offsets.starts);
  const sizeBytes = Math.max(header.length + offsets.end, input.padToBytes ?? 0);
  const file = await open(path, "w");
  try {
    await file.truncate(sizeBytes);
    await file.write(header, 0, header.length, 0);
    for (const [index, tensor] of input.tensors.entries()) {
      const data = tensor.data?.();
      if (data !== undefined)
        await file.write(data, 0, data.length, header.length + (offsets.starts[index] ?? 0));
    }
  } finally {
    await file.close();
  }
  return sizeBytes;
}

/** The bytes before the tensor data, padded to the alignment. */
export function renderGgufHeader(input: GgufWriteInput, starts = layOut(input.tensors).starts): Uint8Array {
  const out = new ByteWriter();
  out.raw(Buffer.from("GGUF"));
  out.u32(3);
  out.u64(input.tensors.length);
  out.u64(input.metadata.size);
  for (const [key, value] of input.metadata) {
    out.text(key);
    writeValue(out, value);
  }
  for (const [index, tensor] of input.tensors.entries()) {
    out.text(tensor.name);
    out.u32(tensor.dimensions.length);
    for (const dimension of tensor.dimensions) out.u64(dimension);
    out.u32(tensor.ggmlType);
    out.u64(starts[index] ?? 0);
  }
  return out.padded(ALIGNMENT);
}

function layOut(tensors: readonly GgufWriteTensor[]): { starts: number[]; end: number } {
  let at = 0;
  const starts = tensors.map((tensor) => {
    const start = at;
    at = Math.ceil((at + tensor.sizeBytes) / ALIGNMENT) * ALIGNMENT;
    return start;
  });
  return { starts, end: at };
}

function writeValue(out: ByteWriter, value: GgufWriteValue): void {
  switch (value.type) {
    case "u32":
    case "i32":
    case "f32":
      out.u32(TYPE_IDS[value.type]);
      out.number(value.type, value.value);
      return;
    case "bool":
      out.u32(TYPE_IDS.bool);
      out.raw(Uint8Array.of(value.value ? 1 : 0));
      return;
    case "string":
      out.u32(TYPE_IDS.string);
      out.text(value.value);
      return;
    case "strings":
      out.arrayHead(TYPE_IDS.string, value.value.length);
      for (const text of value.value) out.text(text);
      return;
    case "u32s":
    case "i32s":
    case "f32s": {
      const scalar = value.type === "u32s" ? "u32" : value.type === "i32s" ? "i32" : "f32";
      out.arrayHead(TYPE_IDS[scalar], value.value.length);
      for (const number of value.value) out.number(scalar, number);
      return;
    }
    default:
      value satisfies never;
  }
}

class ByteWriter {
  readonly #chunks: Uint8Array[] = [];
  #length = 0;

  raw(bytes: Uint8Array): void {
    this.#chunks.push(bytes);
    this.#length += bytes.length;
  }
  u32(value: number): void {
    this.number("u32", value);
  }
  u64(value: number): void {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(BigInt(value));
    this.raw(bytes);
  }
  number(type: "u32" | "i32" | "f32", value: number): void {
    const bytes = Buffer.alloc(4);
    if (type === "u32") bytes.writeUInt32LE(value);
    else if (type === "i32") bytes.writeInt32LE(value);
    else bytes.writeFloatLE(value);
    this.raw(bytes);
  }
  text(value: string): void {
    const bytes = Buffer.from(value);
    this.u64(bytes.length);
    this.raw(bytes);
  }
  arrayHead(itemType: number, count: number): void {
    this.u32(ARRAY_TYPE);
    this.u32(itemType);
    this.u64(count);
  }
  padded(alignment: number): Uint8Array {
    const bytes = new Uint8Array(Math.ceil(this.#length / alignment) * alignment);
    let at = 0;
    for (const chunk of this.#chunks) {
      bytes.set(chunk, at);
      at += chunk.length;
    }
    return bytes;
  }
}
