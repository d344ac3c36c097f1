/** The local copy of one kind, and what changed in it. */
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
  /** One event of a watch; undefined when it says nothing new. */
  readonly put: (object: T) => StoreChange<T> | undefined;
  readonly drop: (object: T) => StoreChange<T> | undefined;
  /** Replaces everything with a complete list; returns what differs. */
  readonly replaceAll: (items: readonly T[]) => StoreChange<T>[];
}

/** An empty store. */
export function createStore<T extends KubeObject>(): ObjectStore<T> {
  let objects = new Map<string, T>();
  const slim = createSlimming();

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
    // The last state, with what deletion set in it, is worth more than the one before.
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

/** So many different ones are remembered; objects of one kind have a handful. */
const MAX_SHAPES = 1_000;

/** Characters of an annotation of others that are kept: users may give each object 256 KiB of them. */
const MAX_FOREIGN_ANNOTATION = 4_096;
const OWN = /(^|\.)metalbridge\.dev\//;

/** What nothing here reads is not kept. */
function createSlimming(): (object: KubeObject) => void {
  const shareFields = createSharing();
  return (object) => {
    const { annotations = {} } = object.metadata;
    for (const [name, value] of Object.entries(annotations))
      if (value.length > MAX_FOREIGN_ANNOTATION && !OWN.test(name)) delete annotations[name];
    shareFields(object);
  };
}

/** Which fields a manager owns takes a third of an object's memory, and is the same in nearly all objects of a kind: they share it. */
function createSharing(): (object: KubeObject) => void {
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
