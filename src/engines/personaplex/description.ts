/** NVIDIA's PersonaPlex, in pods. */
import type { EngineDescription } from "../contract/description.ts";
import { personaPlexPod } from "./pod.ts";

export const personaPlex: EngineDescription = {
  runtime: "personaplex",
  formats: ["safetensors"],
  accelerators: ["cuda"],
  isSharedDaemon: false,
  pod: personaPlexPod,
};
