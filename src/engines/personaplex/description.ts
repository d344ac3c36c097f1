/** NVIDIA's PersonaPlex, in pods. */

import { personaPlexConfigSchema } from "../../api/inference-service/runtime-configs.ts";
import { argumentsOfConfig } from "../contract/arguments.ts";
import type { EngineDescription } from "../contract/description.ts";
import { flagsOf, flagsOfFields, hubWeights, type PodRuntime, requireChatMode } from "../contract/pod.ts";

const FIELDS = { "--quantize-4bit": "quantize4Bit", "--cpu-offload": "cpuOffload" } as const;

/** PersonaPlex, NVIDIA's full-duplex speech model on Moshi, as a pod. It fetches its weights itself and has no published image. */
const personaPlexPod: PodRuntime = {
  images: {},
  port: 8998,
  address: "0.0.0.0",
  needsWeights: false,
  offloaded: "needsGPU",
  settings: ["extraArgs", "personaPlexConfig"],
  command: (input) => {
    requireChatMode(input, "personaplex");
    const { spec, settings } = input;
    const config = spec.personaPlexConfig;
    const { weights: _none, ...withoutWeights } = input;
    const { name, env } = hubWeights(withoutWeights, config?.hfTokenSecretRef);
    return {
      command: ["/app/moshi/.venv/bin/python", "-m", "moshi.server"],
      args: [
        ...flagsOf({
          "--host": input.address,
          "--port": input.port,
          "--hf-repo": name,
        }),
        ...flagsOfFields(config, FIELDS),
        ...(settings.extraArgs ?? []),
      ],
      env: [
        ...env,
        // Compiling takes longer than it saves at the start of a conversation.
        { name: "NO_TORCH_COMPILE", value: "1" },
      ],
    };
  },
};

export const personaPlex: EngineDescription = {
  runtime: "personaplex",
  formats: ["safetensors"],
  accelerators: ["cuda"],
  apiPaths: ["/api/chat"],
  isSharedDaemon: false,
  modes: ["chat"],
  arguments: { settings: argumentsOfConfig("personaPlexConfig", personaPlexConfigSchema, FIELDS) },
  pod: personaPlexPod,
};
