/** One replica's log: every line names it, and a finding that repeats is logged once. */
import type { ObjectRef } from "../../../src/kube/types.ts";
import type { Log } from "../../../src/util/ports.ts";

/** With its uid alone until `ref` knows the name: a new agent finds engines before it knows their replicas. */
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

/** Findings that come back with every retry: logged when they are new or different, and once when they are resolved. */
export interface ChangeMonitor {
  /** `what` completes "cannot …"; `why` decides whether it is another finding than the last one. True where it is. */
  readonly found: (what: string, why: string, data: object) => boolean;
  readonly resolved: (what: string) => void;
}

/** One replica's, with its own log. */
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
