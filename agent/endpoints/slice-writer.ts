/** Makes one attempt to write a slice: applies to the newest known version, whose uid prevents that a deleted slice is created again. */
import { MANAGER_AGENT } from "../../src/api/group.ts";
import { keyOf } from "../../src/api/names.ts";
import { ENDPOINT_SLICES } from "../../src/kube/kinds.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import type { ApiFailure, ApiResult, KubeClient, ObjectRef } from "../../src/kube/types.ts";
import type { NewestSlices } from "./newest-slices.ts";

export type WriteAttempt =
  | { readonly at: "written"; readonly slice: EndpointSlice }
  | { readonly at: "missing" }
  | { readonly at: "refused"; readonly why: string }
  | { readonly at: "failed"; readonly failure: ApiFailure };

export interface SliceWriter {
  /** `bodyFor` returns a string to refuse the write. */
  readonly write: (
    replica: ObjectRef,
    bodyFor: (slice: EndpointSlice) => EndpointSlice | string,
  ) => Promise<WriteAttempt>;
}

export function createSliceWriter(client: KubeClient, slices: NewestSlices): SliceWriter {
  /** Keys whose last write failed: the known version may be out of date, so the next attempt reads the slice. */
  const doubtful = new Set<string>();

  const current = async (replica: ObjectRef, key: string): Promise<ApiResult<EndpointSlice>> => {
    const known = doubtful.has(key) ? undefined : slices.get(key);
    if (known !== undefined) return { ok: true, value: known };
    const read = await client.get(ENDPOINT_SLICES, replica);
    if (read.ok) {
      slices.seen(key, read.value);
      doubtful.delete(key);
    }
    return read;
  };
  return {
    write: async (replica, bodyFor) => {
      const key = keyOf(replica);
      const failed = (failure: ApiFailure): WriteAttempt => {
        doubtful.add(key);
        if (failure.kind !== "notFound") return { at: "failed", failure };
        slices.seen(key, undefined);
        doubtful.delete(key);
        return { at: "missing" };
      };
      const found = await current(replica, key);
      if (!found.ok) return failed(found.error);
      const body = bodyFor(found.value);
      if (typeof body === "string") return { at: "refused", why: body };
      const applied = await client.apply(ENDPOINT_SLICES, body, {
        manager: MANAGER_AGENT,
        current: found.value,
      });
      if (!applied.ok) return failed(applied.error);
      slices.seen(key, applied.value.object);
      return { at: "written", slice: applied.value.object };
    },
  };
}
