/** Chooses the image of a container, which always has a tag or a digest. Pure. */

import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { Accelerator } from "../../../src/api/fields/hardware.ts";
import type { Runtime } from "../../../src/api/fields/runtimes.ts";
import { tagged } from "../../../src/capacity/backend.ts";
import type { PodRuntime } from "../../../src/engines/contract/pod.ts";
import type { PodsSettings } from "./contract.ts";

const COMPONENT = "[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*";
const HOST = "[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]+)?|\\[[0-9a-fA-F:]+\\](?::[0-9]+)?";
/** An image reference as registries define it: a name followed by a tag, a digest, or both. */
const REFERENCE = new RegExp(
  `^(?:(?:${HOST})/)?${COMPONENT}(?:/${COMPONENT})*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`,
);

interface ImageRequest {
  readonly runtime: Runtime;
  readonly pod: PodRuntime;
  readonly accelerator: Accelerator;
  /** spec.image. */
  readonly named?: string;
  /** Tag in place of that of the configured or pinned image. */
  readonly version?: string;
  readonly settings: PodsSettings;
}

/** Throws `ImageInvalid` and `ImageUnknown`. */
export function imageOf(request: ImageRequest): string {
  const { named, version } = request;
  return named === undefined ? tagged(defaultImage(request), version) : checkImage(named, "spec.image");
}

function defaultImage({ runtime, pod, accelerator, settings }: ImageRequest): string {
  for (const key of [`${runtime}/${accelerator}`, runtime]) {
    const configured = settings.images[key];
    if (configured !== undefined) return checkImage(configured, `the controller's image for ${key}`);
  }
  const pinned = pod.images[accelerator];
  if (pinned === undefined) {
    const message = `no image of runtime ${runtime} is known for accelerator ${accelerator}`;
    throw new MetalbridgeError("ImageUnknown", message);
  }
  const { registryPrefix = "" } = settings;
  return registryPrefix === "" ? pinned : `${registryPrefix.replace(/\/+$/, "")}/${pinned}`;
}

/** Throws `ImageInvalid`. */
export function checkImage(image: string, field: string): string {
  const match = REFERENCE.exec(image);
  if (match === null) throw new MetalbridgeError("ImageInvalid", `${field}: ${image} is no image reference`);
  const [, tag, digest] = match;
  if (tag === undefined && digest === undefined)
    throw new MetalbridgeError("ImageInvalid", `${field}: ${image} has neither a tag nor a digest`);
  return image;
}
