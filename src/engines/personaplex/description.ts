/** NVIDIA's PersonaPlex, in pods. */
import type { EngineDescription } from "../contract/description.ts";
import { flagsOf, hubWeights, type PodRuntime, requireChatMode } from "../contract/pod.ts";

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
          "--quantize-4bit": config?.quantize4Bit,
          "--cpu-offload": config?.cpuOffload,
        }),
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
  pod: personaPlexPod,
};
