/**
 * Objects of any kind by the words of kubectl, over one kept connection. A process of kubectl takes 50 ms of a core and
 * makes the API server answer a handshake and its schemas each time; what tests kubectl itself still runs it.
 */
import { connect, type RawRequest } from "../../src/kube/client/connect.ts";
import { collectionPath, objectPath } from "../../src/kube/paths.ts";
import type { Kind, KubeObject } from "../../src/kube/types.ts";

const TIMEOUT_MS = 60_000;
const DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

export interface Objects extends Disposable {
  /** As `kubectl apply --server-side`: the same field manager, the same strict validation. */
  readonly apply: (object: object) => Promise<void>;
  /** `kind/name`, or `kind` for a list of them. Untyped, as kubectl's JSON is. */
  // biome-ignore lint/suspicious/noExplicitAny: JSON for assertions
  readonly get: (namespace: string, what: string) => Promise<any>;
  /** As `kubectl patch --type=merge`. */
  readonly patch: (namespace: string, what: string, change: object) => Promise<void>;
  /** One object of a kind, for polls; untyped too. */
  // biome-ignore lint/suspicious/noExplicitAny: JSON for assertions
  readonly read: (kind: Kind<KubeObject>, name: string, namespace?: string) => Promise<any>;
  /** Those of a namespace that carry the label `name=value`, or all of them. */
  readonly list: (
    kind: Kind<KubeObject>,
    labelSelector?: string,
    namespace?: string,
    // biome-ignore lint/suspicious/noExplicitAny: JSON for assertions
  ) => Promise<any>;
}

interface Resource {
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
  readonly words: readonly string[];
}

interface Named {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

/** Requests that the API server refuses reject with its message. */
export async function openObjects(kubeconfigPath: string): Promise<Objects> {
  const connection = await connect({ kubeconfigPath });
  const request = async (request: Omit<RawRequest, "timeoutMs">) => {
    const answer = await connection.request({ ...request, timeoutMs: TIMEOUT_MS });
    if (!answer.ok) throw new Error(`${request.method} ${request.path}: ${answer.error.message}`);
    return JSON.parse(answer.value);
  };
  let known: readonly Resource[] = [];
  const find = async (is: (resource: Resource) => boolean, what: string): Promise<Resource> => {
    // It may have been installed since.
    if (!known.some(is)) {
      const found = ["/api", "/apis"].map((path) => request({ method: "GET", path, accept: DISCOVERY }));
      known = (await Promise.all(found)).flatMap(resourcesOf);
    }
    const resource = known.find(is);
    if (resource === undefined) throw new Error(`the server has no ${what}`);
    return resource;
  };
  const pathOf = async (namespace: string, what: string): Promise<string> => {
    const [word = "", name] = what.split("/");
    const resource = await find(({ words }) => words.includes(word.toLowerCase()), word);
    return pathTo(resource, namespace, name);
  };
  return {
    apply: async (object) => {
      const { apiVersion, kind, metadata } = object as Named;
      const resource = await find((one) => one.apiVersion === apiVersion && one.kind === kind, kind);
      const path = pathTo(resource, metadata.namespace ?? "default", metadata.name);
      await request({
        method: "PATCH",
        path: `${path}?fieldManager=kubectl&fieldValidation=Strict`,
        body: JSON.stringify(object),
        contentType: "application/apply-patch+yaml",
      });
    },
    get: async (namespace, what) => request({ method: "GET", path: await pathOf(namespace, what) }),
    read: (kind, name, namespace = "default") =>
      request({ method: "GET", path: objectPath(kind, { name, namespace }) }),
    list: async (kind, labelSelector, namespace = "default") =>
      (await request({ method: "GET", path: collectionPath(kind, namespace, { labelSelector }) })).items,
    patch: async (namespace, what, change) => {
      const path = `${await pathOf(namespace, what)}?fieldManager=kubectl-patch&fieldValidation=Strict`;
      const contentType = "application/merge-patch+json";
      await request({ method: "PATCH", path, body: JSON.stringify(change), contentType });
    },
    [Symbol.dispose]: () => connection.close(),
  };
}

function pathTo({ apiVersion, namespaced, plural }: Resource, namespace: string, name?: string): string {
  const root = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const within = namespaced ? `/namespaces/${namespace}` : "";
  return `${root}${within}/${plural}${name === undefined ? "" : `/${name}`}`;
}

interface Discovery {
  readonly items: readonly {
    readonly metadata?: { readonly name?: string };
    readonly versions: readonly {
      readonly version: string;
      readonly resources?: readonly {
        readonly resource: string;
        readonly responseKind: { readonly kind: string };
        readonly scope: "Namespaced" | "Cluster";
        readonly singularResource?: string;
        readonly shortNames?: readonly string[];
      }[];
    }[];
  }[];
}

/** In the server's order of preference. */
function resourcesOf({ items }: Discovery): readonly Resource[] {
  return items.flatMap(({ metadata, versions }) =>
    versions.flatMap(({ version, resources = [] }) =>
      resources.map(({ resource, responseKind, scope, singularResource = "", shortNames = [] }) => ({
        // The core group has no name.
        apiVersion: (metadata?.name ?? "") === "" ? version : `${metadata?.name}/${version}`,
        kind: responseKind.kind,
        plural: resource,
        namespaced: scope === "Namespaced",
        words: [...[resource, singularResource, ...shortNames], `${resource}.${metadata?.name ?? ""}`],
      })),
    ),
  );
}
