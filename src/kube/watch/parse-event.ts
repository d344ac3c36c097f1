/** One line of a watch as a value. */
import { failureOfStatus } from "../errors.ts";
import type { ApiFailure, KubeObject } from "../types.ts";

export type WatchEvent<T> =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: T }
  | { readonly type: "BOOKMARK"; readonly resourceVersion: string }
  | { readonly type: "ERROR"; readonly failure: ApiFailure };

/** Undefined when the line is not a watch event: the stream can no longer be trusted. */
export function parseWatchEvent<T extends KubeObject>(line: string): WatchEvent<T> | undefined {
  let event: { type?: unknown; object?: unknown } | null;
  try {
    event = JSON.parse(line);
  } catch {
    return undefined;
  }
  const object = event?.object;
  switch (event?.type) {
    case "ADDED":
    case "MODIFIED":
    case "DELETED":
      return isNamed(object) ? { type: event.type, object: object as T } : undefined;
    case "BOOKMARK":
      return hasVersion(object)
        ? { type: "BOOKMARK", resourceVersion: object.metadata.resourceVersion }
        : undefined;
    case "ERROR":
      return { type: "ERROR", failure: failureOfStatus(object) };
    default:
      return undefined;
  }
}

/** What every object of a list or watch has at least. */
export function isNamed(object: unknown): boolean {
  return hasVersion(object) && "name" in object.metadata && typeof object.metadata.name === "string";
}

function hasVersion(object: unknown): object is { metadata: { resourceVersion: string } } {
  if (typeof object !== "object" || object === null || !("metadata" in object)) return false;
  const { metadata } = object;
  if (typeof metadata !== "object" || metadata === null || !("resourceVersion" in metadata)) return false;
  return typeof metadata.resourceVersion === "string";
}
