/** Any program that a service names, on hosts and in pods. */
import type { EngineDescription } from "../contract/description.ts";
import { backendEntry } from "./backend-entry.ts";
import { genericClaims, honoredProbes, programFields, unhonoredParts } from "./hosting.ts";
import { KNOWN_PROGRAMS, knownName, withKnownProgram } from "./known-programs.ts";
import { genericPod } from "./pod.ts";
import { toProgram } from "./program.ts";

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
