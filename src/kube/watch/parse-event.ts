/** Parses a line of a watch. */
import { parseJson } from "../../util/parse-json.ts";
import { hasVersion, isNamed } from "../client/list-pages.ts";
import { failureOfStatus } from "../errors.ts";
import type { ApiFailure, KubeObject } from "../types.ts";

export type WatchEvent<T> =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: T }
  | { readonly type: "BOOKMARK"; readonly resourceVersion: string }
  | { readonly type: "ERROR"; readonly failure: ApiFailure };

/** Undefined if the line is not a watch event, so that the stream can no longer be trusted. */
export function parseWatchEvent<T extends KubeObject>(line: string): WatchEvent<T> | undefined {
  const event = parseJson(line) as { type?: unknown; object?: unknown } | null | undefined;
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
