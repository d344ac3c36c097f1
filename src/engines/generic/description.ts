/** Any program that a service names, on hosts and in pods. */

import type { Placeholder } from "../../api/fields/placeholders.ts";
import type { EngineDescription } from "../contract/description.ts";
import { type PodFiles, type PodInput, type PodRuntime, parallelSizes } from "../contract/pod.ts";
import { backendEntry } from "./backend-entry.ts";
import { genericClaims, honoredProbes, programFields, unhonoredParts } from "./hosting.ts";
import { KNOWN_PROGRAMS, knownName, withKnownProgram } from "./known-programs.ts";
import { fillPlaceholders, toProgram } from "./program.ts";

/** A program in an image of the user, with the same placeholders as on hosts. */
const genericPod: PodRuntime = {
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

export const generic: EngineDescription = {
  runtime: "generic",
  formats: ["gguf", "mlx", "safetensors", "pytorch", "custom"],
  chosenFor: KNOWN_PROGRAMS.flatMap(({ formats }) => formats),
  accelerators: ["metal", "cuda", "rocm", "vulkan", "intel", "cpu"],
  apiPaths: [],
  isSharedDaemon: false,
  revisionFields: programFields,
  program: toProgram,
  complete: withKnownProgram,
  host: {
    install: "allow the program in generic.roots of the agent's configuration",
    settings: ["contextSize", "parallelSlots", "speculativeDecoding", "modelRefs.draft", ...programFields],
    probes: honoredProbes,
    unhonoredParts,
    programs: KNOWN_PROGRAMS,
    neededProgram: ({ program }) =>
      program?.backend === undefined ? knownName(program) : backendEntry(program.backend),
    claims: genericClaims,
  },
  pod: genericPod,
};
