/** What a reader without the right to all namespaces sees, and what is missing. */
import { GROUP } from "../../../src/api/group.ts";
import { missingRight, notWatched } from "../../../src/console/missing-right.ts";
import type { ApiRefusal, Session } from "../../../src/console/protocol.ts";
import { useKnownRight, useSession } from "../api/session.ts";
import { useList } from "../live/hooks.ts";
import { useNamespace } from "./search.ts";

export interface Sight {
  /** Those that the reader sees and that have objects, and without the right to all that of the credential. */
  readonly namespaces: readonly string[];
  /** Without the right to all namespaces. */
  readonly isNarrow: boolean;
  /** What is missing, and why; empty if nothing is, and where each page says it. */
  readonly missing: string;
}

/** Undefined rights are not known yet. */
export interface Rights {
  readonly allServices: boolean | undefined;
  /** To the services of the credential's namespace. */
  readonly ownServices: boolean | undefined;
  readonly hosts: boolean | undefined;
  /** To the replicas and pods of all namespaces. */
  readonly allClaims: boolean | undefined;
}

const SERVICES = "inferenceservices";

/** `seen` are the namespaces of the rows. Pure. */
export function sightOf(
  session: Pick<Session, "namespace" | "isLocal"> | undefined,
  rights: Rights,
  seen: Iterable<string>,
): Sight {
  const { namespace = "", isLocal = false } = session ?? {};
  const isNarrow = rights.allServices === false;
  const own = isNarrow && rights.ownServices === true ? [namespace] : [];
  const namespaces = [...new Set([...seen, ...own])].sort();
  if (!isNarrow || namespaces.length === 0 || rights.hosts === undefined)
    return { namespaces, isNarrow, missing: "" };
  const notes = [
    onlyWords(namespaces, rights.hosts),
    ...(isLocal && rights.hosts && rights.allClaims === false
      ? ["Claims of other namespaces are not counted: less memory may be free than shown."]
      : []),
    ...(isLocal ? ["metalbridge console -n selects another namespace."] : []),
  ];
  return { namespaces, isNarrow, missing: notes.join(" ") };
}

function onlyWords(namespaces: readonly string[], hasHosts: boolean): string {
  const { length } = namespaces;
  const names = length > 3 ? `${length} namespaces` : `namespaces ${namespaces.join(", ")}`;
  const shown = length === 1 ? `namespace ${namespaces[0]} is shown` : `${names} are shown`;
  const [noHosts, norHosts] = hasHosts ? ["", ""] : [", and no hosts", ", nor hosts"];
  return `Only ${shown}${noHosts}: you may not list inferenceservices of all namespaces${norHosts}.`;
}

export function useSight(): Sight {
  const session = useSession();
  const services = useList("services", 1_000).rows;
  const models = useList("models", 1_000).rows;
  const allServices = useKnownRight({ verb: "list", resource: SERVICES });
  const isNarrow = allServices === false;
  const { namespace } = session ?? {};
  const ownServices = useKnownRight(
    { verb: "list", resource: SERVICES, namespace },
    isNarrow && namespace !== undefined,
  );
  const hosts = useKnownRight({ verb: "list", resource: "hosts" }, isNarrow);
  const replicas = useKnownRight({ verb: "list", resource: "inferencereplicas" }, isNarrow);
  const pods = useKnownRight({ verb: "list", group: "", resource: "pods" }, isNarrow);
  const rights = { allServices, ownServices, hosts, allClaims: replicas && pods };
  return sightOf(
    session,
    rights,
    [...services, ...models].map((row) => row.namespace),
  );
}

/** Why the chosen namespace shows no objects of a kind; undefined if it has none, or while that is not known. */
export function useHiddenNamespace(resource: string): ApiRefusal | undefined {
  const namespace = useNamespace();
  const session = useSession();
  const all = useKnownRight({ verb: "list", resource });
  const here = useKnownRight({ verb: "list", resource, namespace }, namespace !== "");
  if (namespace === "" || all !== false) return undefined;
  if (here === false) return missingRight({ verb: "list", group: GROUP, resource, namespace });
  const isWatched = session?.isLocal !== true || session.namespace === namespace;
  return isWatched ? undefined : notWatched(GROUP, resource, namespace);
}
