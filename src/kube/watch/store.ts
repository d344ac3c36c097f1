/** The local copy of a kind, and changes in it. */
import { keyOf } from "../../api/names.ts";
import type { KubeObject } from "../types.ts";

export interface StoreChange<T> {
  readonly key: string;
  readonly object: T | undefined;
  readonly before: T | undefined;
}

export interface ObjectStore<T extends KubeObject> {
  readonly get: (key: string) => T | undefined;
  readonly list: () => readonly T[];
  /** Stores the object of a watch event; undefined if nothing has changed. */
  readonly put: (object: T) => StoreChange<T> | undefined;
  readonly drop: (object: T) => StoreChange<T> | undefined;
  /** Replaces all objects with a complete list; returns the differences. */
  readonly replaceAll: (items: readonly T[]) => StoreChange<T>[];
}

/** An empty store. */
export function createStore<T extends KubeObject>(): ObjectStore<T> {
  let objects = new Map<string, T>();

  const put = (object: T): StoreChange<T> | undefined => {
    const key = keyOf(object.metadata);
    const before = objects.get(key);
    if (isSame(before, object)) return undefined;
    objects.set(key, object);
    return { key, object, before };
  };

  const drop = (object: T): StoreChange<T> | undefined => {
    const key = keyOf(object.metadata);
    const before = objects.get(key);
    if (before === undefined) return undefined;
    objects.delete(key);
    // The last state includes the deletion, so it is more useful than the previous one.
    return { key, object: undefined, before: object };
  };

  const replaceAll = (items: readonly T[]): StoreChange<T>[] => {
    const old = objects;
    objects = new Map(items.map((item) => [keyOf(item.metadata), item]));
    const changes: StoreChange<T>[] = [];
    for (const [key, object] of objects) {
      const before = old.get(key);
      if (!isSame(before, object)) changes.push({ key, object, before });
    }
    for (const [key, before] of old) if (!objects.has(key)) changes.push({ key, object: undefined, before });
    return changes;
  };

  return { get: (key) => objects.get(key), list: () => [...objects.values()], put, drop, replaceAll };
}

/** Maximum number of shared parts in memory. The objects of a kind have only a few field sets, which are large. */
const MAX_FIELD_SETS = 1_000;
/** Those on the nodes of a cluster are small, and may be thousands. */
const MAX_IMAGES = 20_000;

/** Maximum length of stored annotations of other programs, which may add 256 KiB to each object. */
const MAX_FOREIGN_ANNOTATION = 4_096;
const OWN = /(^|\.)metalbridge\.dev\//;

/** For the objects of one kind, as they arrive: removes data that no part reads, and shares what they have in common. */
export function createSlimmer<T extends KubeObject>(): (object: T) => T {
  const [fieldsOf, imageOf] = [createSharing(MAX_FIELD_SETS), createSharing(MAX_IMAGES)];
  return (object: T & { readonly status?: { images?: readonly unknown[] } }) => {
    const { annotations = {} } = object.metadata;
    for (const [name, value] of Object.entries(annotations))
      if (value.length > MAX_FOREIGN_ANNOTATION && !OWN.test(name)) delete annotations[name];
    for (const entry of object.metadata.managedFields ?? [])
      if (entry.fieldsV1 !== undefined) entry.fieldsV1 = fieldsOf(entry.fieldsV1);
    // Only nodes have them.
    if (Array.isArray(object.status?.images)) object.status.images = object.status.images.map(imageOf);
    return object;
  };
}

/** The field sets of managers take a third of an object's memory, the images on a Node half of it. They are the same in nearly all objects of a kind, so each is kept once. */
function createSharing(max: number): (part: unknown) => unknown {
  const parts = new Map<string, unknown>();
  return (part) => {
    const text = JSON.stringify(part);
    if (parts.size >= max) parts.clear();
    if (!parts.has(text)) parts.set(text, part);
    return parts.get(text);
  };
}

function isSame(before: KubeObject | undefined, after: KubeObject): boolean {
  return (
    before !== undefined &&
    before.metadata.uid === after.metadata.uid &&
    before.metadata.resourceVersion === after.metadata.resourceVersion
  );
}
