import { expect, test } from "vitest";
import { parsePrintedBuffers } from "./printed.ts";

const MIB = 1 << 20;
const recorded = `
0.00.110.060 I load_tensors:   CPU_Mapped model buffer size =   297.07 MiB
0.00.110.591 I llama_context:        CPU  output buffer size =     0.49 MiB
0.00.110.711 I llama_kv_cache:        CPU KV buffer size =    64.00 MiB
0.00.033.129 I llama_memory_recurrent:        CPU RS buffer size =     1.19 MiB
0.00.117.221 I llama_kv_cache: size =   64.00 MiB (  2048 cells,   8 layers,  4/4 seqs), K (f16):   32.00 MiB, V (f16):   32.00 MiB
0.00.118.083 I sched_reserve:        CPU compute buffer size =    28.52 MiB
`;

test("buffers are added up by what they are for", () => {
  expect(parsePrintedBuffers(recorded)).toEqual({
    weightsBytes: 297.07 * MIB,
    kvBytes: 65.19 * MIB,
    computeBytes: 28.52 * MIB,
    outputBytes: 0.49 * MIB,
    totalBytes: expect.closeTo(391.27 * MIB, 0),
    backends: ["CPU"],
  });
});

test("a GPU's buffers and the host's beside them count together", () => {
  const metal = `load_tensors:  MTL0_Mapped model buffer size =  1918.35 MiB
llama_kv_cache:       MTL0 KV buffer size =   448.00 MiB
sched_reserve:       MTL0 compute buffer size =   256.50 MiB
sched_reserve:        CPU compute buffer size =    20.00 MiB
`;
  expect(parsePrintedBuffers(metal)).toMatchObject({ computeBytes: 276.5 * MIB, backends: ["CPU", "MTL0"] });
});

test("half a log gives no sizes", () => {
  expect(parsePrintedBuffers(recorded.slice(0, 120))).toBe(undefined);
  expect(parsePrintedBuffers("")).toBe(undefined);
});
