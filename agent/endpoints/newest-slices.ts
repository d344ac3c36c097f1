/** The newest known version of each slice: from a list, then from the watch or the response to a write if it is newer. */
import { keyOf } from "../../src/api/names.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";

export interface NewestSlices {
  readonly get: (key: string) => EndpointSlice | undefined;
  /** Takes a slice from the watch, a read or a write; undefined if it does not exist. */
  readonly seen: (key: string, slice: EndpointSlice | undefined) => void;
  /** A complete list replaces all slices, older or not: etcd may have been restored. Returns the keys that changed. */
  readonly listed: (slices: readonly EndpointSlice[]) => readonly string[];
}

export function createNewestSlices(): NewestSlices {
  let slices = new Map<string, EndpointSlice>();
  return {
    get: (key) => slices.get(key),
    seen: (key, slice) => {
      const known = slices.get(key);
      const isOther = known?.metadata.uid !== slice?.metadata.uid;
      if (slice === undefined) slices.delete(key);
      else if (known === undefined || isOther || version(slice) >= version(known)) slices.set(key, slice);
    },
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

/** Resource versions of one kind increase, and may be compared since Kubernetes 1.35. */
function version(slice: EndpointSlice): bigint {
  const text = slice.metadata.resourceVersion ?? "";
  return /^\d+$/.test(text) ? BigInt(text) : 0n;
}
