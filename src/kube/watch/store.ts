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
  const slim = createSlimmer();

  const put = (object: T): StoreChange<T> | undefined => {
    const key = keyOf(object.metadata);
    slim(object);
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
    for (const item of items) slim(item);
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

/** Maximum number of different field sets in memory; the objects of a kind have only a few. */
const MAX_SHAPES = 1_000;

/** Maximum length of stored annotations of other programs, which may add 256 KiB to each object. */
const MAX_FOREIGN_ANNOTATION = 4_096;
const OWN = /(^|\.)metalbridge\.dev\//;

/** Removes data that no part reads. */
function createSlimmer(): (object: KubeObject) => void {
  const shareFields = createFieldSharing();
  return (object) => {
    const { annotations = {} } = object.metadata;
    for (const [name, value] of Object.entries(annotations))
      if (value.length > MAX_FOREIGN_ANNOTATION && !OWN.test(name)) delete annotations[name];
    shareFields(object);
  };
}

/** The field sets of managers take a third of an object's memory and are the same in nearly all objects of a kind, so they are shared. */
function createFieldSharing(): (object: KubeObject) => void {
  const shapes = new Map<string, unknown>();
  return ({ metadata }) => {
    for (const entry of metadata.managedFields ?? []) {
      if (entry.fieldsV1 === undefined) continue;
      const text = JSON.stringify(entry.fieldsV1);
      if (shapes.size >= MAX_SHAPES) shapes.clear();
      if (!shapes.has(text)) shapes.set(text, entry.fieldsV1);
      entry.fieldsV1 = shapes.get(text);
    }
  };
}

function isSame(before: KubeObject | undefined, after: KubeObject): boolean {
  return (
    before !== undefined &&
    before.metadata.uid === after.metadata.uid &&
    before.metadata.resourceVersion === after.metadata.resourceVersion
  );
}
