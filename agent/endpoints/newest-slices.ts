/** The newest known state of each slice: what the watch shows, or the answer to our own write where that is newer. */
import type { EndpointSlice } from "../../src/kube/objects.ts";

export interface NewestSlices {
  readonly get: (key: string) => EndpointSlice | undefined;
  readonly seen: (key: string, slice: EndpointSlice | undefined) => void;
  readonly written: (key: string, slice: EndpointSlice) => void;
  readonly gone: (key: string) => void;
}

export function createNewestSlices(): NewestSlices {
  const slices = new Map<string, EndpointSlice>();
  const keep = (key: string, slice: EndpointSlice): void => {
    const known = slices.get(key);
    const isOther = known?.metadata.uid !== slice.metadata.uid;
    if (known === undefined || isOther || version(slice) >= version(known)) slices.set(key, slice);
  };
  return {
    get: (key) => slices.get(key),
    seen: (key, slice) => {
      if (slice === undefined) slices.delete(key);
      else keep(key, slice);
    },
    written: keep,
    gone: (key) => slices.delete(key),
  };
}

/** Resource versions of one kind grow, and may be compared since Kubernetes 1.35. */
function version(slice: EndpointSlice): bigint {
  const text = slice.metadata.resourceVersion ?? "";
  return /^\d+$/.test(text) ? BigInt(text) : 0n;
}
