/** NVIDIA's PersonaPlex, in pods. */
import type { EngineDescription } from "../contract/description.ts";
import { personaPlexPod } from "./pod.ts";

export const personaPlex: EngineDescription = {
  runtime: "personaplex",
  formats: ["safetensors"],
  accelerators: ["cuda"],
  apiPaths: ["/api/chat"],
  isSharedDaemon: false,
  modes: ["chat"],
  pod: personaPlexPod,
};
