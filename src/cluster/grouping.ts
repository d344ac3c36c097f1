/** Indexes objects by group, for example by their service, so that a pass over one key reads only its objects. */
import type { KubeObject } from "../kube/types.ts";

export interface Grouping<T extends KubeObject> {
  readonly of: (group: string) => readonly T[];
  readonly groups: () => readonly string[];
  /** Applies a change from the watch, and returns the affected groups. */
  readonly note: (key: string, object: T | undefined, before: T | undefined) => readonly string[];
}

/** `groupsOf` names the groups of one object. */
export function createGrouping<T extends KubeObject>(
  groupsOf: (object: T) => readonly string[],
): Grouping<T> {
  const groups = new Map<string, Map<string, T>>();
  return {
    of: (group) => [...(groups.get(group)?.values() ?? [])],
    groups: () => [...groups.keys()],
    note: (key, object, before) => {
      const left = before === undefined ? [] : groupsOf(before);
      const entered = object === undefined ? [] : groupsOf(object);
      for (const group of left) remove(groups, group, key);
      for (const group of entered) {
        const members = groups.get(group) ?? new Map<string, T>();
        if (object !== undefined) members.set(key, object);
        groups.set(group, members);
      }
      return [...new Set([...left, ...entered])];
    },
  };
}

function remove<T>(groups: Map<string, Map<string, T>>, group: string, key: string): void {
  const members = groups.get(group);
  members?.delete(key);
  if (members?.size === 0) groups.delete(group);
}
