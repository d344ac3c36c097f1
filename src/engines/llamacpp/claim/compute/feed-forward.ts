/** The feed-forward part of a layer: dense, or mixture of experts. */
import type { Graph, Tensor } from "./graph.ts";
import { FLOAT } from "./settings.ts";
import type { ExpertShape, ModelShape } from "./shape.ts";

export function addFeedForward(
  graph: Graph,
  shape: ModelShape,
  layer: number,
  tokens: number,
  normed: Tensor,
): Tensor {
  const { experts } = shape;
  if (experts === undefined || layer < experts.denseLayers) {
    return addDense(graph, shape, shape.feedForward, tokens, normed);
  }
  const mixed = addExperts(graph, shape, experts, tokens, normed);
  if (experts.sharedWidth === 0) return mixed;
  const shared = addDense(graph, shape, experts.sharedWidth, tokens, normed);
  return graph.over([mixed, shared]);
}

function addDense(
  graph: Graph,
  { width, traits }: ModelShape,
  inner: number,
  tokens: number,
  normed: Tensor,
): Tensor {
  const size = FLOAT * tokens * inner;
  const out = FLOAT * tokens * width;
  if (traits.has("fusedGate")) return graph.step(out, graph.step(size, graph.step(2 * size, normed)));
  if (traits.has("noGate")) return graph.step(out, graph.over([graph.step(size, normed)]));
  const gate = graph.step(size, normed);
  const up = graph.step(size, normed);
  return graph.step(out, graph.step(size, gate, up));
}

/** Number of experts to add up. Adding more needs no more memory. */
const ADDED = 4;

function addExperts(
  graph: Graph,
  { width, traits }: ModelShape,
  { count, used, width: inner }: ExpertShape,
  tokens: number,
  normed: Tensor,
): Tensor {
  const bytes = (elements: number) => FLOAT * tokens * elements;
  const chances = graph.over([graph.step(bytes(count), normed)]);
  const order = graph.step(bytes(count), chances);
  const chosen = graph.step(bytes(used), chances, order);
  const sum = graph.over([graph.step(bytes(1), chosen)]);
  const weights = graph.step(bytes(used), chosen, sum);
  const inside = traits.has("fusedExperts")
    ? graph.step(bytes(used * inner), graph.step(bytes(2 * used * inner), normed, order))
    : graph.step(
        bytes(used * inner),
        graph.step(bytes(used * inner), normed, order),
        graph.step(bytes(used * inner), normed, order),
      );
  const weighed = graph.over([graph.step(bytes(used * width), inside, order)], weights);
  if (used < 2) return weighed;
  let total = graph.step(bytes(width), weighed, weighed);
  for (let index = 2; index < Math.min(used, ADDED); index++) total = graph.over([total], weighed);
  return total;
}
