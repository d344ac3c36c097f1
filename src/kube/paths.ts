/** URL paths of kinds and objects. */
import type { Kind, KubeObject, ListOptions, ObjectRef } from "./types.ts";

const MIN_WATCH_S = 300;

type Query = Record<string, string | undefined>;

/** Path of all objects of a kind, or of those in a namespace. */
export function collectionPath(
  kind: Kind<KubeObject>,
  namespace: string | undefined,
  query: Query = {},
): string {
  const root = kind.group === "" ? `/api/${kind.version}` : `/apis/${kind.group}/${kind.version}`;
  const inNamespace =
    kind.namespaced && namespace !== undefined ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${root}${inNamespace}/${kind.plural}${renderQuery(query)}`;
}

/** Path of an object or of its subresource. For a namespaced kind, the namespace defaults to `default`. */
export function objectPath(
  kind: Kind<KubeObject>,
  ref: ObjectRef,
  subresource?: string,
  query: Query = {},
): string {
  const namespace = kind.namespaced ? (ref.namespace ?? "default") : undefined;
  const suffix = subresource === undefined ? "" : `/${subresource}`;
  return `${collectionPath(kind, namespace)}/${encodeURIComponent(ref.name)}${suffix}${renderQuery(query)}`;
}

/** The selectors of a list or watch as query parameters. */
export function selectorQuery({ labelSelector, fieldSelector }: ListOptions): Query {
  return { labelSelector, fieldSelector };
}

/** Path of a watch with bookmarks and a random timeout, so that the watches of a fleet do not end at the same time. */
export function watchPath(kind: Kind<KubeObject>, options: ListOptions, resourceVersion: string): string {
  return collectionPath(kind, options.namespace, {
    watch: "true",
    allowWatchBookmarks: "true",
    resourceVersion,
    timeoutSeconds: String(MIN_WATCH_S + Math.floor(Math.random() * MIN_WATCH_S)),
    ...selectorQuery(options),
  });
}

/** `group/version`, or `version` for the core group. */
export function apiVersionOf(kind: Kind<KubeObject>): string {
  return kind.group === "" ? kind.version : `${kind.group}/${kind.version}`;
}

function renderQuery(query: Query): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parameters.set(name, value);
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
}
