/** The attention of one layer: queries, keys and values, scores against the cache. */
import type { Graph, Tensor } from "./graph.ts";
import type { CacheInputs } from "./inputs.ts";
import { type ComputeSettings, FLOAT, HALF } from "./settings.ts";
import type { ModelShape } from "./shape.ts";

export interface AttentionPlace {
  readonly graph: Graph;
  readonly shape: ModelShape;
  readonly settings: ComputeSettings;
  readonly cache: CacheInputs;
  readonly positions: Tensor;
  readonly kvHeads: number;
  /** Must be called when keys and values are stored: from then on, the engine prepares the next layer. */
  readonly onStored: () => void;
}

/** Attention over the normalized state of all tokens. */
export function addAttention(place: AttentionPlace, normed: Tensor): Tensor {
  if (place.shape.latent !== undefined) return addLatentAttention(place, place.shape.latent, normed);
  const { graph, shape, settings, cache, kvHeads } = place;
  const bytes = (elements: number) => FLOAT * settings.tokens * elements;
  const { query, key, value } = projections(place, normed);
  graph.effect(key, cache.keyIndex);
  graph.effect(value, cache.valueIndex);
  place.onStored();
  const mixed = bytes(shape.heads * (kvHeads > 0 ? shape.valueLength : 0));
  const result = scored(place, query, mixed);
  const { valueRotation } = cache;
  const back = valueRotation === undefined ? result : graph.step(mixed, valueRotation, result);
  return graph.step(bytes(shape.width), back);
}

function projections(place: AttentionPlace, normed: Tensor) {
  const { graph, shape, settings, positions, kvHeads, cache } = place;
  const bytes = (elements: number) => FLOAT * settings.tokens * elements;
  const queryBytes = bytes(shape.heads * shape.keyLength);
  const keyBytes = bytes(kvHeads * shape.keyLength);
  const valueBytes = bytes(kvHeads * shape.valueLength);
  /** Heads are rotated before they are quantized, and queries with them. */
  const turned = (size: number, plain: Tensor, rotation: Tensor | undefined) =>
    rotation === undefined ? plain : graph.step(size, rotation, plain);
  if (shape.traits.has("fusedQKV")) {
    const all = graph.step(queryBytes + keyBytes + valueBytes, normed);
    const query = turned(queryBytes, graph.step(queryBytes, all, positions), cache.keyRotation);
    const key = turned(keyBytes, graph.step(keyBytes, all, positions), cache.keyRotation);
    return { query, key, value: turned(valueBytes, all, cache.valueRotation) };
  }
  // Norms and positions of heads use a view, which is never overwritten.
  const placed = (size: number) => {
    const plain = graph.step(size, normed);
    return shape.traits.has("queryNorm")
      ? graph.over([graph.step(size, plain)], positions)
      : graph.step(size, plain, positions);
  };
  const query = turned(queryBytes, placed(queryBytes), cache.keyRotation);
  const value = turned(valueBytes, graph.step(valueBytes, normed), cache.valueRotation);
  return { query, key: turned(keyBytes, placed(keyBytes), cache.keyRotation), value };
}

function scored(place: AttentionPlace, query: Tensor, mixedBytes: number): Tensor {
  const { graph, shape, settings, cache, kvHeads } = place;
  if (settings.hasFlashAttention) {
    const halves = halved(place, kvHeads * shape.keyLength, kvHeads * shape.valueLength);
    return graph.step(mixedBytes, query, cache.mask, ...halves);
  }
  const scores = graph.step(FLOAT * settings.tokens * shape.heads * cache.cells, query);
  const weights = graph.over([scores], cache.mask);
  return graph.step(mixedBytes, graph.step(mixedBytes, weights));
}

/** Flash attention uses half precision, so a cache of full precision is copied for each layer. */
function halved({ graph, settings, cache }: AttentionPlace, keys: number, values: number): Tensor[] {
  const cells = HALF * settings.streams * cache.cells;
  return [
    ...(settings.keyBytes === FLOAT ? [graph.step(cells * keys)] : []),
    ...(settings.valueBytes === FLOAT ? [graph.step(cells * values)] : []),
  ];
}

/** Multi-head latent attention: queries are projected into the compressed space of the cache. */
function addLatentAttention(
  place: AttentionPlace,
  latent: NonNullable<ModelShape["latent"]>,
  normed: Tensor,
): Tensor {
  const { graph, shape, settings, cache, positions } = place;
  const { heads } = shape;
  const { rank, ropeLength, queryRank, keyLength, valueLength } = latent;
  const bytes = (elements: number) => FLOAT * settings.tokens * elements;
  const down = queryRank > 0 ? graph.over([graph.over([graph.step(bytes(queryRank), normed)])]) : normed;
  const queries = graph.step(bytes(heads * keyLength), down);
  const absorbed = graph.step(bytes(heads * rank), queries);
  const rotated = graph.step(bytes(heads * ropeLength), queries, positions);
  const query = graph.step(bytes(heads * (rank + ropeLength)), absorbed, rotated);
  const compressed = graph.step(bytes(rank + ropeLength), normed);
  const values = graph.over([graph.step(bytes(rank), compressed)]);
  const keyPosition = graph.step(bytes(ropeLength), compressed, positions);
  graph.effect(graph.step(bytes(rank + ropeLength), values, keyPosition), cache.keyIndex);
  place.onStored();
  const back = (mixed: Tensor) =>
    graph.step(bytes(heads * valueLength), graph.step(bytes(heads * valueLength), mixed));
  if (settings.hasFlashAttention) {
    const halves = halved(place, rank + ropeLength, rank);
    const mixed = graph.step(bytes(heads * rank), query, cache.mask, ...halves);
    return graph.step(bytes(shape.width), back(mixed));
  }
  // Without flash attention the cached values are copied out for each layer.
  const copied = graph.step(settings.streams * cache.cells * rank * settings.valueBytes);
  const weights = graph.over([graph.step(FLOAT * settings.tokens * heads * cache.cells, query)], cache.mask);
  return graph.step(bytes(shape.width), back(graph.step(bytes(heads * rank), copied, weights)));
}
