/** Settings for services that run as pods, with their defaults. */
import { z } from "zod";
import type { CacheSettings, PodsSettings } from "./workload/contract.ts";

export const podsConfigSchema = z.strictObject({
  hostsOnly: z
    .boolean()
    .default(false)
    .describe(
      "Run services on hosts only. The controller then does not watch or write Deployments, Jobs, PersistentVolumeClaims, pods or nodes, and needs no permissions for them.",
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
      "Engine images to use instead of the pinned ones, separated by commas: `vllm=mirror.example/vllm:v1,vllm/rocm=…`.",
    ),
  engineRegistry: z
    .string()
    .default("")
    .describe("Registry or path that is prefixed to the pinned engine images, for a mirror."),
  hostPaths: z
    .string()
    .default("")
    .transform((text) => (text === "" ? [] : text.split(",")))
    .pipe(
      z
        .array(
          z
            .string()
            .max(1_024)
            .regex(/^(\/(?!\.\.?(\/|$))[^/]+)+$/, "must be absolute paths below /, without . and .."),
        )
        .max(16),
    )
    .describe(
      "Folders of nodes from which pods may read weights, separated by commas: a file:// source below one of them is mounted read-only. Everyone who may create Models can then read these folders. Pod Security baseline and restricted refuse such pods.",
    ),
  probeNodes: z
    .boolean()
    .default(true)
    .describe(
      "Probe nodes for placement.mode Auto: on each node whose labels and report lack information, run a pod once for a few seconds. Without fitness or an image, no node is probed.",
    ),
  probeRuntimeClassName: z
    .string()
    .min(1)
    .describe(
      "RuntimeClass of the probe pods on nodes with NVIDIA GPUs, usually nvidia. If unset, nodes with NVIDIA GPUs are not probed.",
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
