/** The layers of a model in the order in which the engine computes them. */
import { addAttention } from "./attention.ts";
import type { Graph, Tensor } from "./graph.ts";
import type { GraphInputs } from "./inputs.ts";
import { addRecurrent, carriedBytes } from "./recurrent.ts";
import { type ComputeSettings, FLOAT } from "./settings.ts";
import type { ExpertShape, ModelShape } from "./shape.ts";

/** Lays out all layers, from the embedded tokens to the final state of all tokens, or of the output rows. */
export function addLayers(
  graph: Graph,
  shape: ModelShape,
  settings: ComputeSettings,
  inputs: GraphInputs,
  embedded: Tensor,
): Tensor {
  const context = { graph, shape, settings, inputs, before: new Map<number, Tensor>() };
  let state = embedded;
  for (const layer of shape.layers.keys()) state = addLayer(context, layer, state);
  return state;
}

interface Context {
  readonly graph: Graph;
  readonly shape: ModelShape;
  readonly settings: ComputeSettings;
  readonly inputs: GraphInputs;
  /** Convolution state per recurrent layer, fetched as soon as the previous layer has stored its state. */
  readonly before: Map<number, Tensor>;
}

function fetchBefore({ graph, shape, settings, before }: Context, layer: number): void {
  const kind = shape.layers[layer];
  if (shape.recurrent === undefined || before.has(layer)) return;
  if (kind === "recurrent" || kind === "both")
    before.set(layer, graph.step(carriedBytes(shape.recurrent, settings.slots)));
}

function addLayer(context: Context, layer: number, state: Tensor): Tensor {
  const { graph, shape, settings } = context;
  fetchBefore(context, layer);
  const normed = graph.over([graph.over([state])]);
  const mixed = addMixer(context, layer, normed);
  if (mixed === undefined) {
    return graph.over([addFeedForward(graph, shape, layer, settings.tokens, normed), state]);
  }
  const isLast = layer === shape.layers.length - 1;
  const rows = isLast && !settings.isPooled ? settings.outputs : settings.tokens;
  const outputRows = (tensor: Tensor) =>
    isLast ? graph.step(FLOAT * rows * shape.width, tensor, context.inputs.outputs) : tensor;
  const added = outputRows(mixed);
  const before = outputRows(state);
  if (shape.feedForward === 0 && shape.experts === undefined) return graph.over([added, before]);
  if (shape.traits.has("parallel")) {
    const forward = addFeedForward(graph, shape, layer, rows, outputRows(normed));
    return graph.over([graph.over([forward, added]), before]);
  }
  const middle = graph.over([added, before]);
  const forward = addFeedForward(graph, shape, layer, rows, graph.over([graph.over([middle])]));
  return graph.over([forward, middle]);
}

/** The part of a layer that mixes tokens; undefined for layers with a feed-forward part only. */
function addMixer(context: Context, layer: number, normed: Tensor): Tensor | undefined {
  const { graph, shape, settings, inputs } = context;
  const kind = shape.layers[layer] ?? "attention";
  const onStored = () => fetchBefore(context, layer + 1);
  const attention = () =>
    addAttention(
      {
        graph,
        shape,
        settings,
        cache: kind === "windowed" ? inputs.windowed : inputs.full,
        positions: inputs.positions,
        kvHeads: shape.kvHeads[layer] ?? 0,
        onStored,
      },
      normed,
    );
  const before = context.before.get(layer);
  if (kind === "neither") return undefined;
  if (kind === "attention" || kind === "windowed" || shape.recurrent === undefined || before === undefined)
    return attention();
  const { tokens, slots } = settings;
  const place = { graph, width: shape.width, tokens, slots, before, onStored };
  const carried = addRecurrent(place, shape.recurrent, normed);
  return kind === "both" ? graph.over([attention(), carried]) : carried;
}

/** The feed-forward part of a layer: dense, or mixture of experts. */
function addFeedForward(
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
