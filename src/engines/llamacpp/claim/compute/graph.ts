/** A computation for the allocator: steps with the size of their result, their inputs, and the buffers that they may overwrite. */

/** Number of a step or an input in its graph. */
export type Tensor = number;

interface Step {
  readonly bytes: number;
  readonly reads: readonly Tensor[];
  /** Tensors whose buffers the result may reuse, in the order in which the engine tries them. */
  readonly onto: readonly Tensor[];
  readonly kind: "input" | "step" | "effect";
  readonly isKept: boolean;
}

export interface Graph {
  /** An input that is filled in before the computation, and has a buffer from the start. */
  readonly input: (bytes: number) => Tensor;
  /** A step with a separate buffer for its result. */
  readonly step: (bytes: number, ...reads: Tensor[]) => Tensor;
  /** A step that reuses the buffer of an input of the same size that no other step reads. */
  readonly over: (onto: readonly Tensor[], ...reads: Tensor[]) => Tensor;
  /** A step that only writes elsewhere, for example into the KV cache. */
  readonly effect: (...reads: Tensor[]) => void;
  /** A step whose result stays until the end. */
  readonly keep: (bytes: number, ...reads: Tensor[]) => Tensor;
  /** Size of the buffer for the computation. */
  readonly peakBytes: () => number;
  readonly inputBytes: () => number;
}

/** Alignment of all backends, or less. */
const ALIGNMENT = 32;

export function createGraph(): Graph {
  const steps: Step[] = [];
  const add = (
    kind: Step["kind"],
    bytes: number,
    reads: Tensor[],
    onto: readonly Tensor[] = [],
    isKept = false,
  ) => steps.push({ bytes, reads, onto, kind, isKept }) - 1;
  const bytesOf = (tensor: Tensor | undefined) => steps[tensor ?? -1]?.bytes ?? 0;
  return {
    input: (bytes) => add("input", bytes, []),
    step: (bytes, ...reads) => add("step", bytes, reads),
    over: (onto, ...reads) => {
      const bytes = bytesOf(onto[0]);
      const same = onto.filter((tensor) => bytesOf(tensor) === bytes);
      return add("step", bytes, [...onto, ...reads], same);
    },
    effect: (...reads) => {
      add("effect", 0, reads);
    },
    keep: (bytes, ...reads) => add("step", bytes, reads, [], true),
    peakBytes: () => peakOf(steps),
    inputBytes: () => steps.reduce((sum, { kind, bytes }) => sum + (kind === "input" ? bytes : 0), 0),
  };
}

function peakOf(steps: readonly Step[]): number {
  const pool = createBufferPool(ALIGNMENT);
  const readers = readersOf(steps);
  const places: (number | undefined)[] = steps.map(({ kind, bytes }) =>
    kind === "input" ? pool.take(bytes) : undefined,
  );
  for (const [tensor, step] of steps.entries()) {
    if (step.kind === "step") places[tensor] = placeOf(step, places, readers) ?? pool.take(step.bytes);
    for (const read of step.reads) {
      const left = (readers[read] ?? 0) - 1;
      readers[read] = left;
      const place = left > 0 || steps[read]?.isKept ? undefined : places[read];
      if (place === undefined) continue;
      pool.give(place, steps[read]?.bytes ?? 0);
      places[read] = undefined;
    }
  }
  return pool.peakBytes();
}

function readersOf(steps: readonly Step[]): Int32Array {
  const readers = new Int32Array(steps.length);
  for (const { reads } of steps) for (const read of reads) readers[read] = (readers[read] ?? 0) + 1;
  return readers;
}

/** The buffer of a tensor that no other step will read; the step takes it over. */
function placeOf(step: Step, places: (number | undefined)[], readers: Int32Array): number | undefined {
  const chosen = step.onto.find((one) => readers[one] === 1 && places[one] !== undefined);
  if (chosen === undefined) return undefined;
  const place = places[chosen];
  places[chosen] = undefined;
  return place;
}

interface BufferPool {
  /** Offset of the new block. */
  readonly take: (bytes: number) => number;
  readonly give: (offset: number, bytes: number) => void;
  readonly peakBytes: () => number;
}

interface Block {
  offset: number;
  bytes: number;
}

/** The buffer allocator of the engine: best fit, and the last free block grows. Its peak is the size of the buffer. */
function createBufferPool(alignment: number): BufferPool {
  /** Sorted by offset; the last block has no end. */
  const free: Block[] = [{ offset: 0, bytes: Number.POSITIVE_INFINITY }];
  const aligned = (bytes: number) => Math.ceil(bytes / alignment) * alignment;
  let peak = 0;
  const take = (bytes: number): number => {
    const length = aligned(bytes);
    const index = bestFit(free, length);
    const block = free[index];
    if (block === undefined) return peak;
    const { offset } = block;
    block.offset += length;
    block.bytes -= length;
    if (block.bytes === 0) free.splice(index, 1);
    peak = Math.max(peak, offset + length);
    return offset;
  };
  const give = (offset: number, bytes: number): void => {
    const length = aligned(bytes);
    const next = free.findIndex((block) => block.offset >= offset + length);
    const after = free[next];
    const before = free[next - 1];
    const joinsAfter = after !== undefined && after.offset === offset + length;
    if (before !== undefined && before.offset + before.bytes === offset) {
      before.bytes += length;
      if (!joinsAfter) return;
      before.bytes += after.bytes;
      free.splice(next, 1);
    } else if (joinsAfter) {
      after.offset = offset;
      after.bytes += length;
    } else {
      free.splice(next, 0, { offset, bytes: length });
    }
  };
  return { take, give, peakBytes: () => peak };
}

/** The smallest free block that is large enough; the last block only if no other is. */
function bestFit(free: readonly Block[], length: number): number {
  let best = free.length - 1;
  let least = Number.POSITIVE_INFINITY;
  for (let index = 0; index < free.length - 1; index++) {
    const bytes = free[index]?.bytes ?? 0;
    // Selects the last of equal blocks, as the engine does.
    if (bytes >= length && bytes <= least) {
      best = index;
      least = bytes;
    }
  }
  return best;
}
