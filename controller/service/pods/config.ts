/** Settings for services that run as pods, with their defaults. */
import { z } from "zod";
import type { CacheSettings, PodsSettings } from "../../workload/contract.ts";

export const podsConfigSchema = z.strictObject({
  hostsOnly: z
    .boolean()
    .default(false)
    .describe(
      "Run services on hosts only. The controller then neither watches nor writes Deployments, Jobs, PersistentVolumeClaims, pods or nodes, and needs no rights to them.",
    ),
  engineImages: z
    .string()
    .default("")
    .transform((text) => (text === "" ? [] : text.split(",").map((pair) => pair.split("=", 2))))
    .pipe(
      z
        .array(
          z.tuple([
            z.string().regex(/^[a-z-]+(\/[a-z]+)?$/, "must be runtime=image or runtime/accelerator=image"),
            z.string("must be runtime=image or runtime/accelerator=image").min(1),
          ]),
        )
        .max(64),
    )
    .describe(
      "Images of engines instead of the pinned ones, separated by commas: `vllm=mirror.example/vllm:v1,vllm/rocm=…`.",
    ),
  engineRegistry: z
    .string()
    .default("")
    .describe("Registry or path to prefix to the pinned images of engines, for a mirror."),
  probeNodes: z
    .boolean()
    .default(false)
    .describe(
      "For placement.mode Auto: probe each node whose labels and report lack information once, by a pod that runs for a few seconds.",
    ),
  probeRuntimeClassName: z
    .string()
    .min(1)
    .describe(
      "RuntimeClass of these pods on nodes with NVIDIA GPUs, usually nvidia. Absent: such nodes are not probed.",
    )
    .optional(),
});

export function podsSettingsOf({
  engineImages,
  engineRegistry,
  hostsOnly: _,
  probeNodes: __,
  probeRuntimeClassName: ___,
  ...fetch
}: z.output<typeof podsConfigSchema> & CacheSettings): PodsSettings {
  return {
    fetch,
    images: Object.fromEntries(engineImages),
    registryPrefix: engineRegistry === "" ? undefined : engineRegistry,
  };
}

/** Undefined if nodes are not probed, or no image is known. */
export function probingOf({
  probeNodes,
  probeRuntimeClassName: runtimeClassName,
  image,
  imagePullSecrets,
}: z.output<typeof podsConfigSchema> & CacheSettings) {
  return probeNodes && image !== undefined ? { image, imagePullSecrets, runtimeClassName } : undefined;
}
