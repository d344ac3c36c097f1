/**
 * Objects of any kind by the words of kubectl, over one kept connection. A process of kubectl takes 70 ms of a core; only a test
 * that shows what users see runs it.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseAllDocuments } from "yaml";
import { connect, type KubeConnection, type RawRequest } from "../../src/kube/client/connect.ts";
import { collectionPath, objectPath } from "../../src/kube/paths.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { Kind, KubeObject } from "../../src/kube/types.ts";
import { watchOnce } from "../../src/kube/watch/watch-once.ts";

const REQUEST_TIMEOUT_MS = 60_000;
const UNTIL_TIMEOUT_MS = 120_000;
/** Between two watches, after the first was closed without an answer. */
const PAUSE_MS = 100;
const DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const MERGE_PATCH = "application/merge-patch+json";
const APPLY = "application/apply-patch+yaml";

// biome-ignore lint/suspicious/noExplicitAny: untyped as kubectl's JSON is, for assertions
export type Untyped = any;

export interface Objects extends Disposable {
  /** As `kubectl apply --server-side --force-conflicts`, one after the other: the same field manager, strict validation. */
  readonly apply: (...objects: readonly object[]) => Promise<void>;
  /** Creates the CustomResourceDefinitions of files, or of folders of them, and resolves once the API server has established them. */
  readonly install: (...paths: readonly string[]) => Promise<void>;
  /** As `kubectl create`: what the server has stored. With `dryRun` it stores nothing. */
  readonly create: (object: object, options?: { readonly dryRun?: boolean }) => Promise<Untyped>;
  readonly createNamespace: (name: string, labels?: Readonly<Record<string, string>>) => Promise<void>;
  /** `kind/name`, or `kind` for a list of them. */
  readonly get: (namespace: string, what: string) => Promise<Untyped>;
  /** As `kubectl patch --type=merge`, optionally of a subresource. */
  readonly patch: (
    namespace: string,
    what: string,
    change: object,
    subresource?: "status" | "scale",
  ) => Promise<Untyped>;
  /** As `kubectl scale`. */
  readonly scale: (namespace: string, what: string, replicas: number) => Promise<void>;
  /** As `kubectl delete`, which waits until the objects are gone: `kind/name`, or `kind` for all of a namespace. */
  readonly remove: (namespace: string, ...what: readonly string[]) => Promise<void>;
  /** As `kubectl delete --wait=false`. */
  readonly startRemoval: (namespace: string, ...what: readonly string[]) => Promise<void>;
  /**
   * Calls `check` with the object `kind/name` (undefined where it does not exist), or with the items of `kind`, now and after
   * each of their changes, until it does not throw. Rejects with its last error.
   */
  readonly until: <T>(
    namespace: string,
    what: string,
    check: (found: Untyped) => T,
    options?: UntilOptions,
  ) => Promise<T>;
  /** `Type Reason` of the Events about objects of this name. */
  readonly events: (namespace: string, about: string) => Promise<readonly string[]>;
  /** A token of a ServiceAccount, as `kubectl create token` makes it. */
  readonly token: (
    namespace: string,
    account: string,
    seconds?: number,
    /** The Secret that it ends with. */
    boundTo?: string,
  ) => Promise<string>;
  /** As `kubectl auth can-i VERB RESOURCE --as=user`, of a resource such as `hosts.metalbridge.dev`. */
  readonly may: (user: string, verb: string, resource: string, namespace?: string) => Promise<boolean>;
  /** One object of a kind, for polls. */
  readonly read: (kind: Kind<KubeObject>, name: string, namespace?: string) => Promise<Untyped>;
  /** Those of a namespace that carry the label `name=value`, or all of them. */
  readonly list: (kind: Kind<KubeObject>, labelSelector?: string, namespace?: string) => Promise<Untyped>;
  /** As `kubectl get --raw`. */
  readonly raw: (path: string) => Promise<string>;
}

export interface UntilOptions {
  readonly labelSelector?: string;
  readonly timeoutMs?: number;
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
  readonly metadata: { readonly name?: string; readonly namespace?: string };
}

/** A request that the API server refuses: its message, and its HTTP status (0 where there was no response). */
export class RequestRefused extends Error {
  readonly status: number;

  constructor(what: string, status: number, message: string) {
    super(`${what}: ${message}`);
    this.name = "RequestRefused";
    this.status = status;
  }
}

/** Connects with the first request. Requests that the API server refuses reject with `RequestRefused`. `wrap` may observe requests. */
export function objectsOf(
  kubeconfigPath: string,
  wrap: (connection: KubeConnection) => KubeConnection = (connection) => connection,
): Objects {
  let opened: Promise<KubeConnection> | undefined;
  const connection = () => {
    opened ??= connect({ kubeconfigPath, maxRequests: 32 }).then(wrap);
    return opened;
  };
  const sendText = async (request: Omit<RawRequest, "timeoutMs">): Promise<string> => {
    const answer = await (await connection()).request({ ...request, timeoutMs: REQUEST_TIMEOUT_MS });
    if (answer.ok) return answer.value;
    const { status, message } = answer.error;
    throw new RequestRefused(`${request.method} ${request.path}`, status, message);
  };
  const send = async (request: Omit<RawRequest, "timeoutMs">): Promise<Untyped> =>
    JSON.parse(await sendText(request));
  const { find, resourceOf } = discovery(send);
  const pathOf = async (namespace: string, what: string): Promise<string> => {
    const [word = "", name] = what.split("/");
    return pathTo(await find(word), namespace, name);
  };
  const startRemoval = async (namespace: string, what: string): Promise<string[]> => {
    const removed = await send({ method: "DELETE", path: await pathOf(namespace, what) });
    // Where it goes at once the answer is a Status with its uid, else the object; of a collection the objects.
    const objects: Untyped[] = removed.items ?? [removed];
    return objects.map(({ metadata, details }) => details?.uid ?? metadata.uid);
  };
  const objects: Objects = {
    apply: async (...items) => {
      for (const object of items) {
        const { metadata } = object as Named;
        const path = pathTo(
          await resourceOf(object as Named),
          metadata.namespace ?? "default",
          metadata.name,
        );
        const query = "fieldManager=kubectl&fieldValidation=Strict&force=true";
        const body = JSON.stringify(object);
        await send({ method: "PATCH", path: `${path}?${query}`, body, contentType: APPLY });
      }
    },
    install: async (...paths) => {
      const definitions = paths.flatMap(definitionsIn);
      for (const definition of definitions) await objects.create(definition);
      for (const { metadata } of definitions)
        await objects.until("", `crd/${metadata.name}`, ({ status }) => {
          const conditions: Untyped[] = status?.conditions ?? [];
          if (!conditions.some((one) => one.type === "Established" && one.status === "True"))
            throw new Error(`${metadata.name} is not established: ${JSON.stringify(conditions)}`);
        });
    },
    create: async (object, { dryRun = false } = {}) => {
      const { metadata } = object as Named;
      const path = pathTo(await resourceOf(object as Named), metadata.namespace ?? "default");
      const query = `fieldManager=kubectl-create&fieldValidation=Strict${dryRun ? "&dryRun=All" : ""}`;
      return send({ method: "POST", path: `${path}?${query}`, body: JSON.stringify(object) });
    },
    createNamespace: async (name, labels) => {
      await objects.create({ apiVersion: "v1", kind: "Namespace", metadata: { name, labels } });
    },
    get: async (namespace, what) => send({ method: "GET", path: await pathOf(namespace, what) }),
    read: (kind, name, namespace = "default") =>
      send({ method: "GET", path: objectPath(kind, { name, namespace }) }),
    list: async (kind, labelSelector, namespace = "default") =>
      (await send({ method: "GET", path: collectionPath(kind, namespace, { labelSelector }) })).items,
    raw: (path) => sendText({ method: "GET", path }),
    patch: async (namespace, what, change, subresource) => {
      const suffix = subresource === undefined ? "" : `/${subresource}`;
      const path = `${await pathOf(namespace, what)}${suffix}?fieldManager=kubectl-patch&fieldValidation=Strict`;
      return send({ method: "PATCH", path, body: JSON.stringify(change), contentType: MERGE_PATCH });
    },
    scale: (namespace, what, replicas) => objects.patch(namespace, what, { spec: { replicas } }, "scale"),
    startRemoval: async (namespace, ...what) => {
      for (const one of what) await startRemoval(namespace, one);
    },
    remove: async (namespace, ...what) => {
      for (const one of what) {
        const uids = new Set(await startRemoval(namespace, one));
        await objects.until(namespace, one.split("/")[0] ?? one, (items: Untyped[]) => {
          const left = items.filter(({ metadata }) => uids.has(metadata.uid));
          if (left.length > 0) throw new Error(`${one} is not gone: ${JSON.stringify(left)}`);
        });
      }
    },
    until: async (namespace, what, check, { labelSelector, timeoutMs = UNTIL_TIMEOUT_MS } = {}) => {
      const [word = "", name] = what.split("/");
      const query = new URLSearchParams();
      if (name !== undefined) query.set("fieldSelector", `metadata.name=${name}`);
      if (labelSelector !== undefined) query.set("labelSelector", labelSelector);
      return watchUntil({
        connection: await connection(),
        path: pathTo(await find(word), namespace),
        query,
        list: send,
        check: (items) => check(name === undefined ? items : items[0]),
        timeoutMs,
      });
    },
    events: async (namespace, about) => {
      const { items } = await objects.get(namespace, "events");
      return items
        .filter(({ involvedObject }: Untyped) => involvedObject.name === about)
        .map(({ type, reason }: Untyped) => `${type} ${reason}`);
    },
    may: async (user, verb, resource, namespace) => {
      const [, accounts] = /^system:serviceaccount:([^:]+):/.exec(user) ?? [];
      const ofAccount = ["system:serviceaccounts", `system:serviceaccounts:${accounts}`];
      const groups = ["system:authenticated", ...(accounts === undefined ? [] : ofAccount)];
      const [plural, ...group] = resource.split(".");
      const resourceAttributes = { verb, resource: plural, group: group.join("."), namespace };
      const review = { apiVersion: "authorization.k8s.io/v1", kind: "SubjectAccessReview", metadata: {} };
      const { status } = await objects.create({ ...review, spec: { user, groups, resourceAttributes } });
      return status.allowed;
    },
    token: async (namespace, account, seconds = 3_600, boundTo?: string) => {
      const body = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest" };
      const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`;
      const secret = { apiVersion: "v1", kind: "Secret", name: boundTo };
      const boundObjectRef = boundTo === undefined ? undefined : secret;
      const spec = { expirationSeconds: seconds, boundObjectRef };
      return (await send({ method: "POST", path, body: JSON.stringify({ ...body, spec }) })).status.token;
    },
    [Symbol.dispose]: () => void opened?.then((one) => one.close()),
  };
  return objects;
}

function definitionsIn(fileOrFolder: string): readonly Named[] {
  const files = statSync(fileOrFolder).isDirectory()
    ? readdirSync(fileOrFolder, { recursive: true, encoding: "utf8" })
        .filter((name) => /\.ya?ml$/.test(name))
        .map((name) => path.join(fileOrFolder, name))
    : [fileOrFolder];
  const documents = files.flatMap((file) => parseAllDocuments(readFileSync(file, "utf8")));
  return documents
    .map((document): Named => document.toJS())
    .filter((object) => object?.kind === "CustomResourceDefinition");
}

interface WatchedCheck<T> {
  readonly connection: KubeConnection;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly list: (request: Omit<RawRequest, "timeoutMs">) => Promise<Untyped>;
  readonly check: (items: Untyped[]) => T;
  readonly timeoutMs: number;
}

/** Lists, checks, and checks again after each event of a watch from there on. */
async function watchUntil<T>({
  connection,
  path,
  query,
  list,
  check,
  timeoutMs,
}: WatchedCheck<T>): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  let failure: unknown;
  for (; performance.now() < deadline; await pause(PAUSE_MS)) {
    const listed = await list({ method: "GET", path: `${path}?${query}` }).catch((error: unknown) => {
      failure = error;
    });
    // The API server may be away.
    if (listed === undefined) continue;
    const items = new Map<string, Untyped>(listed.items.map((item: Untyped) => [item.metadata.uid, item]));
    let found: { readonly value: T } | undefined;
    const tryCheck = () => {
      try {
        found = { value: check([...items.values()]) };
      } catch (error) {
        failure = error;
      }
      return found !== undefined;
    };
    if (tryCheck() && found !== undefined) return found.value;
    const done = new AbortController();
    const timer = setTimeout(() => done.abort(), deadline - performance.now());
    const watching = new URLSearchParams(query);
    watching.set("watch", "true");
    watching.set("resourceVersion", listed.metadata.resourceVersion);
    await watchOnce<Untyped>({
      connection,
      path: `${path}?${watching}`,
      clock: systemClock,
      signal: done.signal,
      silenceMs: timeoutMs,
      onEvent: (event) => {
        if (found !== undefined || event.type === "BOOKMARK") return;
        if (event.type === "DELETED") items.delete(event.object.metadata.uid);
        else items.set(event.object.metadata.uid, event.object);
        if (tryCheck()) done.abort();
      },
    });
    clearTimeout(timer);
    if (found !== undefined) return (found as { readonly value: T }).value;
  }
  throw failure;
}

/** The kinds that the server knows, read once and again where one is missing: it may have been installed since. */
function discovery(send: (request: Omit<RawRequest, "timeoutMs">) => Promise<Untyped>) {
  let known: readonly Resource[] = [];
  const search = async (is: (resource: Resource) => boolean, what: string): Promise<Resource> => {
    if (!known.some(is)) {
      const found = ["/api", "/apis"].map((path) => send({ method: "GET", path, accept: DISCOVERY }));
      known = (await Promise.all(found)).flatMap(resourcesOf);
    }
    const resource = known.find(is);
    if (resource === undefined) throw new Error(`the server has no ${what}`);
    return resource;
  };
  return {
    find: (word: string) => search(({ words }) => words.includes(word.toLowerCase()), word),
    resourceOf: ({ apiVersion, kind }: Named) =>
      search((one) => one.apiVersion === apiVersion && one.kind === kind, `${apiVersion} ${kind}`),
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
