/** The address of a watch. */
import { collectionPath, selectorQuery } from "../client/paths.ts";
import type { Kind, KubeObject, ListOptions } from "../types.ts";

const MIN_WATCH_S = 300;

/** With bookmarks, and with a random end, so that the watches of a fleet do not end together. */
export function watchPath(kind: Kind<KubeObject>, options: ListOptions, resourceVersion: string): string {
  return collectionPath(kind, options.namespace, {
    watch: "true",
    allowWatchBookmarks: "true",
    resourceVersion,
    timeoutSeconds: String(MIN_WATCH_S + Math.floor(Math.random() * MIN_WATCH_S)),
    ...selectorQuery(options),
  });
}
