/** Generates tiny GGUF models from a seed. The real llama-server loads them in milliseconds and answers in English-looking sentences. */
import { type GgufWriteTensor, type GgufWriteValue, writeGguf } from "./gguf-writer.ts";
import { BOS_ID, EOS_ID, type TinyToken, tinyVocabulary, wordClasses } from "./tiny-vocabulary.ts";

export interface TinyModelOptions {
  readonly seed?: number;
  readonly name?: string;
  /** Marks the model as one that pools its output (mean), as `/v1/embeddings` needs. */
  readonly embedding?: boolean;
  /** Never generates an end-of-sequence token: for long streams. */
  readonly endless?: boolean;
  readonly layers?: number;
  readonly embeddingSize?: number;
  readonly heads?: number;
  readonly kvHeads?: number;
  readonly feedForwardSize?: number;
  readonly contextLength?: number;
  /** Pads the vocabulary with tokens that are never generated. */
  readonly vocabularySize?: number;
  /** The layers' weights are zeros that take no space on disk: large models in an instant, still with readable answers. */
  readonly sparse?: boolean;
  /** Weight type of the layers of a sparse model. */
  readonly layerType?: keyof typeof layerTypes;
  /** Extends the file with a hole after the tensors. */
  readonly padToBytes?: number;
  /** Extra or replaced metadata; `undefined` removes a key. */
  readonly metadata?: Readonly<Record<string, GgufWriteValue | undefined>>;
}

export interface TinyModel {
  readonly path: string;
  readonly sizeBytes: number;
}

/** ggml type id, elements per block, bytes per block. */
const layerTypes = {
  f32: [0, 1, 4],
  f16: [1, 1, 2],
  q8_0: [8, 32, 34],
  q4_0: [2, 32, 18],
  q4_k: [12, 256, 144],
} as const;

const FILE_TYPES: Record<keyof typeof layerTypes, number> = { f32: 0, f16: 1, q8_0: 7, q4_0: 2, q4_k: 15 };

const UNUSED = 5;

/** Weight of the grammar and of the random part in the logits of the next token. */
const GRAMMAR_WEIGHT = 14;
const RANDOM_WEIGHT = 1.2;
const FORBIDDEN = -40;

const chatTemplate =
  "{{ bos_token }}{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";

/** Writes a tiny model: the same options give the same bytes on every machine. */
export async function writeTinyModel(path: string, options: TinyModelOptions = {}): Promise<TinyModel> {
  const shape = shapeOf(options);
  const sizeBytes = await writeGguf(path, {
    metadata: metadataOf(shape, options),
    tensors: tensorsOf(shape, options),
    padToBytes: options.padToBytes,
  });
  return { path, sizeBytes };
}

interface Shape {
  readonly seed: number;
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headSize: number;
  readonly feedForward: number;
  readonly tokens: readonly TinyToken[];
}

function shapeOf(options: TinyModelOptions): Shape {
  const width = options.embeddingSize ?? 64;
  const heads = options.heads ?? 2;
  const known = tinyVocabulary(options.endless ?? false);
  const padding = Array.from(
    { length: Math.max(0, (options.vocabularySize ?? 0) - known.length) },
    (_, index) => ({
      text: `<pad${index}>`,
      type: UNUSED,
      score: -2000,
      wordClass: "start" as const,
      follows: [],
    }),
  );
  return {
    seed: options.seed ?? 1,
    layers: options.layers ?? 2,
    width,
    heads,
    kvHeads: options.kvHeads ?? Math.max(1, heads / 2),
    headSize: width / heads,
    feedForward: options.feedForwardSize ?? width,
    tokens: [...known, ...padding],
  };
}

function metadataOf(shape: Shape, options: TinyModelOptions): Map<string, GgufWriteValue> {
  const u32 = (value: number): GgufWriteValue => ({ type: "u32", value });
  const text = (value: string): GgufWriteValue => ({ type: "string", value });
  const entries: Record<string, GgufWriteValue | undefined> = {
    "general.architecture": text("llama"),
    "general.name": text(options.name ?? "Metalbridge Tiny"),
    "general.license": text("apache-2.0"),
    "general.file_type": u32(FILE_TYPES[options.sparse ? (options.layerType ?? "f32") : "f32"]),
    "llama.context_length": u32(options.contextLength ?? 32_768),
    "llama.embedding_length": u32(shape.width),
    "llama.block_count": u32(shape.layers),
    "llama.feed_forward_length": u32(shape.feedForward),
    "llama.attention.head_count": u32(shape.heads),
    "llama.attention.head_count_kv": u32(shape.kvHeads),
    "llama.attention.layer_norm_rms_epsilon": { type: "f32", value: 1e-5 },
    "llama.rope.dimension_count": u32(shape.headSize),
    "llama.pooling_type": options.embedding ? u32(1) : undefined,
    "tokenizer.ggml.model": text("llama"),
    "tokenizer.ggml.tokens": { type: "strings", value: shape.tokens.map((token) => token.text) },
    "tokenizer.ggml.scores": { type: "f32s", value: shape.tokens.map((token) => token.score) },
    "tokenizer.ggml.token_type": { type: "i32s", value: shape.tokens.map((token) => token.type) },
    "tokenizer.ggml.unknown_token_id": u32(0),
    "tokenizer.ggml.bos_token_id": u32(BOS_ID),
    "tokenizer.ggml.eos_token_id": u32(EOS_ID),
    "tokenizer.ggml.add_bos_token": { type: "bool", value: true },
    "tokenizer.ggml.add_space_prefix": { type: "bool", value: false },
    "tokenizer.chat_template": text(chatTemplate),
    ...options.metadata,
  };
  return new Map(
    Object.entries(entries).filter((entry): entry is [string, GgufWriteValue] => entry[1] !== undefined),
  );
}

function tensorsOf(shape: Shape, options: TinyModelOptions): GgufWriteTensor[] {
  const { width, kvHeads, headSize, feedForward, tokens } = shape;
  const random = randomSource(shape.seed);
  const f32 = (name: string, dimensions: readonly number[], data: () => Float32Array): GgufWriteTensor => ({
    name,
    dimensions,
    ggmlType: 0,
    sizeBytes: 4 * dimensions.reduce((product, size) => product * size, 1),
    data: () => asBytes(data()),
  });
  // Padding tokens are a hole in the file: zeros, which the grammar outweighs.
  const rows = tokens.filter((token) => token.type !== UNUSED).length;
  const ones = (name: string) => f32(name, [width], () => new Float32Array(width).fill(1));
  const layer = (name: string, columns: number, rows: number, writesStream: boolean): GgufWriteTensor => {
    if (options.sparse) return zeros(name, [columns, rows], options.layerType ?? "f32");
    return f32(name, [columns, rows], () => matrix(random, columns, rows, writesStream ? reservedWidth : 0));
  };
  const blocks = Array.from({ length: shape.layers }, (_, index) => [
    ones(`blk.${index}.attn_norm.weight`),
    layer(`blk.${index}.attn_q.weight`, width, shape.heads * headSize, false),
    layer(`blk.${index}.attn_k.weight`, width, kvHeads * headSize, false),
    layer(`blk.${index}.attn_v.weight`, width, kvHeads * headSize, false),
    layer(`blk.${index}.attn_output.weight`, shape.heads * headSize, width, true),
    ones(`blk.${index}.ffn_norm.weight`),
    layer(`blk.${index}.ffn_gate.weight`, width, feedForward, false),
    layer(`blk.${index}.ffn_up.weight`, width, feedForward, false),
    layer(`blk.${index}.ffn_down.weight`, feedForward, width, true),
  ]).flat();
  return [
    f32("token_embd.weight", [width, tokens.length], () =>
      embeddingMatrix(random, shape).subarray(0, rows * width),
    ),
    ...blocks,
    ones("output_norm.weight"),
    f32("output.weight", [width, tokens.length], () => outputMatrix(random, shape).subarray(0, rows * width)),
  ];
}

function asBytes(data: Float32Array): Uint8Array {
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

function zeros(name: string, dimensions: readonly number[], type: keyof typeof layerTypes): GgufWriteTensor {
  const [ggmlType, blockSize, blockBytes] = layerTypes[type];
  const elements = dimensions.reduce((product, size) => product * size, 1);
  return { name, dimensions, ggmlType, sizeBytes: (elements / blockSize) * blockBytes };
}

/** Dimension 0 of the residual stream is constant, the next ones hold the word class; layers write only behind them. */
const reservedWidth = 1 + wordClasses.length;

function embeddingMatrix(random: () => number, { width, tokens }: Shape): Float32Array {
  const data = new Float32Array(width * tokens.length);
  for (const [row, token] of tokens.entries()) {
    const at = row * width;
    data[at] = 1;
    data[at + 1 + wordClasses.indexOf(token.wordClass)] = 1;
    for (let column = reservedWidth; column < width; column++) data[at + column] = 0.5 * random();
  }
  return data;
}

function outputMatrix(random: () => number, { width, tokens }: Shape): Float32Array {
  const data = new Float32Array(width * tokens.length);
  const spread = RANDOM_WEIGHT / Math.sqrt(width - reservedWidth);
  for (const [row, token] of tokens.entries()) {
    const at = row * width;
    data[at] = token.follows.length === 0 ? FORBIDDEN : (token.bias ?? 0);
    for (const wordClass of token.follows) data[at + 1 + wordClasses.indexOf(wordClass)] = GRAMMAR_WEIGHT;
    for (let column = reservedWidth; column < width; column++) data[at + column] = spread * random();
  }
  return data;
}

function matrix(random: () => number, columns: number, rows: number, zeroRows: number): Float32Array {
  const data = new Float32Array(columns * rows);
  const spread = 1 / Math.sqrt(columns);
  for (let index = zeroRows * columns; index < data.length; index++) data[index] = spread * random();
  return data;
}

/** A roughly normal distribution from additions alone, so that every machine draws the same numbers. */
function randomSource(seed: number): () => number {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  return () => (uniform() + uniform() + uniform() - 1.5) * 2;
}
