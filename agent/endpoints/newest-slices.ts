/** The newest known state of each slice: from a list, then from the watch or the response to a write if newer. */
import { keyOf } from "../../src/api/names.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";

export interface NewestSlices {
  readonly get: (key: string) => EndpointSlice | undefined;
  readonly seen: (key: string, slice: EndpointSlice | undefined) => void;
  readonly written: (key: string, slice: EndpointSlice) => void;
  readonly gone: (key: string) => void;
  /** A complete list replaces all slices, older or not: etcd may have been restored. Returns the keys that changed. */
  readonly listed: (slices: readonly EndpointSlice[]) => readonly string[];
}

export function createNewestSlices(): NewestSlices {
  let slices = new Map<string, EndpointSlice>();
  const storeIfNewer = (key: string, slice: EndpointSlice): void => {
    const known = slices.get(key);
    const isOther = known?.metadata.uid !== slice.metadata.uid;
    if (known === undefined || isOther || version(slice) >= version(known)) slices.set(key, slice);
  };
  return {
    get: (key) => slices.get(key),
    seen: (key, slice) => {
      if (slice === undefined) slices.delete(key);
      else storeIfNewer(key, slice);
    },
    written: storeIfNewer,
    gone: (key) => slices.delete(key),
    listed: (all) => {
      const before = slices;
      slices = new Map(all.map((slice) => [keyOf(slice.metadata), slice]));
      const keys = new Set([...before.keys(), ...slices.keys()]);
      return [...keys].filter((key) => !isSame(before.get(key), slices.get(key)));
    },
  };
}

function isSame(a: EndpointSlice | undefined, b: EndpointSlice | undefined): boolean {
  return a?.metadata.uid === b?.metadata.uid && a?.metadata.resourceVersion === b?.metadata.resourceVersion;
}

/** Resource versions of one kind grow, and may be compared since Kubernetes 1.35. */
function version(slice: EndpointSlice): bigint {
  const text = slice.metadata.resourceVersion ?? "";
  return /^\d+$/.test(text) ? BigInt(text) : 0n;
}
