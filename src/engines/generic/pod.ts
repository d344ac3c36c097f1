/** A program in an image of the user, with the same placeholders as on hosts. */
import type { Placeholder } from "../../api/fields/placeholders.ts";
import { type PodFiles, type PodInput, type PodRuntime, parallelSizes } from "../contract/pod.ts";
import { fillPlaceholders } from "./program.ts";

export const genericPod: PodRuntime = {
  images: {},
  port: 8080,
  address: "0.0.0.0",
  writesImage: true,
  settings: ["contextSize", "parallelSlots", "command", "args"],
  render: (text, input) => fillPlaceholders(text, valuesOf(input)),
  command: (input) => {
    const { command, args = [] } = input.spec;
    const render = (text: string) => fillPlaceholders(text, valuesOf(input));
    return {
      command: command === undefined ? undefined : command.map(render),
      args: args.map(render),
      env: [],
    };
  },
};

function valuesOf(input: PodInput): Record<Placeholder, string | undefined> {
  const { weights, draft, settings, address, port, model, served } = input;
  const { tensor, pipeline } = parallelSizes(input);
  return {
    model: pathOf(model, weights),
    modelName: served,
    draftModel: draft?.model && pathOf(draft.model, draft.files),
    port: String(port),
    address,
    contextSize: String(settings.contextSize),
    slots: String(settings.parallelSlots),
    tensorParallelSize: String(tensor),
    pipelineParallelSize: String(pipeline),
  };
}

function pathOf({ spec, status }: PodInput["model"], files: PodFiles | undefined): string | undefined {
  const format = status?.format ?? spec.format ?? "gguf";
  const isFolder = format === "safetensors" || format === "mlx" || format === "pytorch";
  return isFolder ? files?.folder : files?.main;
}
