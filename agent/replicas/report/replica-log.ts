/** One replica's log: every line names it. */
import type { ObjectRef } from "../../../src/kube/types.ts";
import type { Log } from "../../../src/ports.ts";

/** With its uid alone until `ref` knows the name: a fresh agent finds engines before it knows whose they are. */
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
