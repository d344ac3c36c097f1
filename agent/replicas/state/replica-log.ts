/** One replica's log: every line names the replica, and a repeated failure is logged once. */
import type { ObjectRef } from "../../../src/kube/types.ts";
import type { Log } from "../../../src/util/ports.ts";

/** Lines have only the uid until `ref` returns the name: a new agent finds engines before it knows their replicas. */
export function createReplicaLog(log: Log, uid: string, ref: () => ObjectRef | undefined): Log {
  const unnamed = log.child({ uid });
  let named: Log | undefined;
  const current = (): Log => {
    const known = named === undefined ? ref() : undefined;
    if (known !== undefined) named = log.child({ uid, namespace: known.namespace, name: known.name });
    return named ?? unnamed;
  };
  return {
    debug: (data, message) => current().debug(data, message),
    info: (data, message) => current().info(data, message),
    warn: (data, message) => current().warn(data, message),
    error: (data, message) => current().error(data, message),
    child: (bindings) => current().child(bindings),
  };
}

/** Failures that recur with every retry: logged when they are new or different, and once when they are resolved. */
export interface ChangeMonitor {
  /** `what` completes "cannot …". Logs and returns true if `why` differs from the last failure of the same `what`. */
  readonly found: (what: string, why: string, data: object) => boolean;
  readonly resolved: (what: string) => void;
}

export function createChangeMonitor(log: Log): ChangeMonitor {
  const last = new Map<string, string>();
  return {
    found: (what, why, more) => {
      if (last.get(what) === why) return false;
      last.set(what, why);
      log.warn(more, `cannot ${what}; retrying`);
      return true;
    },
    resolved: (what) => {
      if (last.delete(what)) log.info({}, `can ${what} again`);
    },
  };
}
