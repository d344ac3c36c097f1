/** The layers of a model in the order in which the engine computes them. */
import { addAttention } from "./attention.ts";
import { addFeedForward } from "./feed-forward.ts";
import type { Graph, Tensor } from "./graph.ts";
import type { GraphInputs } from "./inputs.ts";
import { addRecurrent, carriedBytes } from "./recurrent.ts";
import { type ComputeSettings, FLOAT } from "./settings.ts";
import type { ModelShape } from "./shape.ts";

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
