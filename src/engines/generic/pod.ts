/** A program in an image of the user, with the same placeholders as on hosts. */
import type { PodInput, PodRuntime } from "../contract/pod.ts";
import { fillPlaceholders, type Placeholder } from "./program.ts";

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

function valuesOf({
  weights,
  settings,
  address,
  port,
  model,
}: PodInput): Record<Placeholder, string | undefined> {
  const format = model.status?.format ?? model.spec.format ?? "gguf";
  const isFolder = format === "safetensors" || format === "mlx" || format === "pytorch";
  return {
    model: isFolder ? weights?.folder : weights?.main,
    port: String(port),
    address,
    contextSize: String(settings.contextSize),
    slots: String(settings.parallelSlots),
  };
}
