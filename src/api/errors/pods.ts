/** Services as pods on Linux nodes: what no pod can be made from. */
import type { ErrorEntry } from "./entry.ts";

export const podErrors = {
  ImageInvalid: {
    what: "A container image is not named as [registry/]repository:tag or @digest. Without a tag, nodes would run whatever latest meant when they pulled it.",
    do: "add the tag or the digest of the version to spec.image, or to the image in the controller's configuration",
  },
  ImageUnknown: {
    what: "Metalbridge knows no image of this runtime for the accelerator.",
    do: "set spec.image, or choose another accelerator",
  },
  GPURequestInvalid: {
    what: "The GPUs that the Model or the service asks for cannot be requested from a node as written.",
    do: "correct spec.hardware.gpu of the Model or spec.resources of the service, as the message says",
  },
  GateNotInPods: {
    what: "The service needs the gate, which runs on hosts only: TLS, or API keys for a runtime that does not check them.",
    do: "set spec.placement.on to Hosts, or remove spec.auth and spec.endpoint.tls and use a Gateway or an Ingress for them",
  },
  WeightsNotCached: {
    what: "The engine reads its weights from a volume, and none holds them.",
    do: "remove spec.skipModelInit and spec.modelCache.persistence Ephemeral, or choose a runtime that fetches weights itself (vllm, sglang, tgi)",
  },
  PodArgumentsTooLong: {
    what: "The arguments and variables of the container are longer than a pod may carry.",
    do: "shorten spec.args, spec.extraArgs and spec.env; put long texts into a ConfigMap and mount it with spec.extraVolumes",
  },
} as const satisfies Record<string, ErrorEntry>;
