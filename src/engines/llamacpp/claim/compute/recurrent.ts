/** A recurrent layer: a convolution over the last tokens, and a state that is carried over. */
import type { Graph, Tensor } from "./graph.ts";
import { FLOAT } from "./settings.ts";
import type { ModelShape } from "./shape.ts";

type Recurrent = NonNullable<ModelShape["recurrent"]>;

export interface RecurrentPlace {
  readonly graph: Graph;
  readonly width: number;
  readonly tokens: number;
  readonly slots: number;
  /** Convolution state of earlier tokens. */
  readonly before: Tensor;
  /** Must be called when the state is stored: from then on, the engine prepares the next layer. */
  readonly onStored: () => void;
}

/** Size of the convolution state of all slots, in bytes. */
export function carriedBytes(
  { kind, kernel, innerSize, groups, stateSize }: Recurrent,
  slots: number,
): number {
  const channels = kind === "mamba2" || kind === "deltaNet" ? innerSize + 2 * groups * stateSize : innerSize;
  return FLOAT * slots * Math.max(0, kernel - 1) * channels;
}

export function addRecurrent(place: RecurrentPlace, recurrent: Recurrent, normed: Tensor): Tensor {
  switch (recurrent.kind) {
    case "mamba":
      return addMamba(place, recurrent, normed);
    case "mamba2":
      return addMamba2(place, recurrent, normed);
    case "shortConvolution":
      return addShortConvolution(place, recurrent, normed);
    case "deltaNet":
    case "wkv":
      return addDeltaNet(place, recurrent, normed);
    default:
      return recurrent.kind satisfies never;
  }
}

function addMamba(place: RecurrentPlace, recurrent: Recurrent, normed: Tensor): Tensor {
  const { graph, tokens, slots } = place;
  const { innerSize: inner, stateSize, rank } = recurrent;
  const bytes = (elements: number) => FLOAT * tokens * elements;
  const both = graph.step(bytes(2 * inner), normed);
  const active = convolved(place, recurrent, inner, both);
  const steps = graph.step(bytes(rank + 2 * stateSize), active);
  const time = graph.over([graph.step(bytes(inner), graph.step(bytes(rank), steps))]);
  const state = FLOAT * slots * inner * stateSize;
  const scanned = graph.step(bytes(inner) + state, active, time, steps);
  graph.effect(scanned);
  graph.effect(graph.step(state - state / slots));
  place.onStored();
  const gate = graph.step(bytes(inner), both);
  const result = graph.over([graph.over([active])], scanned);
  return graph.step(bytes(place.width), graph.step(bytes(inner), gate, result));
}

function addMamba2(place: RecurrentPlace, recurrent: Recurrent, normed: Tensor): Tensor {
  const { graph, tokens, slots } = place;
  const { innerSize: inner, stateSize, groups, rank: heads } = recurrent;
  const channels = inner + 2 * groups * stateSize;
  const bytes = (elements: number) => FLOAT * tokens * elements;
  const all = graph.step(bytes(inner + channels + heads), normed);
  const active = convolved(place, recurrent, channels, all);
  const time = graph.over([graph.step(bytes(heads), all)]);
  const state = FLOAT * slots * inner * stateSize;
  const scanned = graph.step(bytes(inner) + state, active, time);
  graph.effect(scanned);
  graph.effect(graph.step(state - state / slots));
  place.onStored();
  const gate = graph.step(bytes(inner), all);
  const result = graph.over([graph.step(bytes(inner), active)], scanned);
  const gated = graph.over([graph.step(bytes(inner), graph.step(bytes(inner), gate, result))]);
  return graph.step(bytes(place.width), gated);
}

/** The activated result of the convolution, whose state of the last tokens is carried over. */
function convolved(
  { graph, tokens, slots, before }: RecurrentPlace,
  recurrent: Recurrent,
  channels: number,
  from: Tensor,
): Tensor {
  const joined = graph.step(FLOAT * tokens * channels + carriedBytes(recurrent, slots), before, from);
  graph.effect(joined);
  return graph.over([graph.over([graph.step(FLOAT * tokens * channels, joined)])]);
}

function addShortConvolution(place: RecurrentPlace, recurrent: Recurrent, normed: Tensor): Tensor {
  const { graph, tokens, width, slots } = place;
  const size = FLOAT * tokens * width;
  const all = graph.step(3 * size, normed);
  const gated = graph.step(size, all);
  const joined = graph.step(size + carriedBytes(recurrent, slots), place.before, gated);
  graph.effect(joined);
  place.onStored();
  const result = graph.step(size, all, graph.step(size, joined));
  return graph.step(size, result);
}

/** Upper bound, because these are computed in chunks whose sizes are not in the header. */
const DELTA_PLACES = 8;

function addDeltaNet(place: RecurrentPlace, recurrent: Recurrent, normed: Tensor): Tensor {
  const { graph, tokens, slots, width } = place;
  const { innerSize: inner, stateSize, groups } = recurrent;
  const channels = inner + 2 * groups * stateSize;
  const state = graph.step(FLOAT * slots * inner * Math.max(1, stateSize), place.before);
  const places = graph.step(FLOAT * tokens * (channels + DELTA_PLACES * inner), normed, state);
  place.onStored();
  return graph.step(FLOAT * tokens * width, places);
}
