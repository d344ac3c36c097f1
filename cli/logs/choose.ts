/** Which of this machine's replicas is meant. Pure. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { LocalReplica } from "./local.ts";

/** A replica's name, else a service's; undefined where neither is known here. Throws NameAmbiguous. */
export function chooseLocal(
  replicas: readonly LocalReplica[],
  name: string,
  namespace: string | undefined,
): LocalReplica | undefined {
  const visible = replicas.filter((one) => namespace === undefined || one.namespace === namespace);
  const named = newestOfEach(visible.filter((one) => one.name === name));
  const meant = named.length > 0 ? named : newestOfEach(visible.filter((one) => one.service === name));
  if (meant.length <= 1) return meant[0];
  const list = meant.map((one) => `${one.namespace}/${one.name}`).sort();
  throw new MetalbridgeError("NameAmbiguous", `${name} fits ${list.join(", ")}`, {
    summary: "name one of them, with its namespace",
    command: `metalbridge logs ${meant[0]?.name} -n ${meant[0]?.namespace}`,
  });
}

/** A replica that was deleted and made again under one name is there twice for a moment. */
function newestOfEach(replicas: readonly LocalReplica[]): readonly LocalReplica[] {
  const byKey = new Map<string, LocalReplica>();
  for (const one of replicas) {
    const key = `${one.namespace}/${one.name}`;
    const known = byKey.get(key);
    if (known === undefined || known.createdAt < one.createdAt) byKey.set(key, one);
  }
  return [...byKey.values()];
}
