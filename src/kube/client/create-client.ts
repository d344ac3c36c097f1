/** The typed client: one request per call, and every outcome is a value. */

import { parseJson } from "../../util/parse-json.ts";
import { bodyOfApply, textOfBody } from "../apply/body.ts";
import { applyDiffers } from "../apply/differs.ts";
import { failureOfBadBody } from "../errors.ts";
import { apiVersionOf, collectionPath, objectPath } from "../paths.ts";
import type {
  ApiFailure,
  ApiResult,
  ApplyOptions,
  JsonPatchOp,
  Kind,
  KubeClient,
  KubeObject,
  ListOptions,
  ObjectRef,
  RemoveOptions,
  WriteOptions,
} from "../types.ts";
import type { KubeConnection, RawRequest } from "./connect.ts";
import { listPages } from "./list-pages.ts";

export interface ClientOptions {
  /** Timeout of each request, including its body. */
  readonly timeoutMs?: number;
  readonly userAgent?: string;
  /** Called before each write, and again right before it is sent. If false, the write fails with `NotLeading`. */
  readonly mayWrite?: () => boolean;
}

type Call = Omit<RawRequest, "timeoutMs" | "userAgent" | "mayStart">;

const DEFAULT_TIMEOUT_MS = 10_000;

/** A stateless client on a connection. */
export function createClient(connection: KubeConnection, options: ClientOptions = {}): KubeClient {
  const client = new Client(connection, options);
  return {
    get: (kind, ref) => client.get(kind, ref),
    list: (kind, listOptions) => client.list(kind, listOptions),
    create: (kind, object, writeOptions) => client.create(kind, object, writeOptions),
    update: (kind, object, writeOptions) => client.update(kind, object, writeOptions),
    apply: (kind, object, applyOptions) => client.apply(kind, object, applyOptions),
    jsonPatch: (kind, ref, operations, patchOptions) => client.jsonPatch(kind, ref, operations, patchOptions),
    remove: (kind, ref, removeOptions) => client.remove(kind, ref, removeOptions),
  };
}

class Client {
  readonly #connection: KubeConnection;
  readonly #shared: { readonly timeoutMs: number; readonly userAgent?: string };
  readonly #mayWrite: (() => boolean) | undefined;

  constructor(
    connection: KubeConnection,
    { timeoutMs = DEFAULT_TIMEOUT_MS, userAgent, mayWrite }: ClientOptions,
  ) {
    this.#connection = connection;
    this.#shared = userAgent === undefined ? { timeoutMs } : { timeoutMs, userAgent };
    this.#mayWrite = mayWrite;
  }

  get<T extends KubeObject>(kind: Kind<T>, ref: ObjectRef): Promise<ApiResult<T>> {
    return this.#object({ method: "GET", path: objectPath(kind, ref) });
  }

  list<T extends KubeObject>(kind: Kind<T>, options: ListOptions = {}) {
    return listPages(this.#connection, kind, { ...options, ...this.#shared });
  }

  create<T extends KubeObject>(kind: Kind<T>, object: T, options?: WriteOptions): Promise<ApiResult<T>> {
    const namespace = kind.namespaced ? (object.metadata.namespace ?? "default") : undefined;
    const path = collectionPath(kind, namespace, queryOf(options));
    return this.#object({ method: "POST", path, body: typed(kind, object) });
  }

  async update<T extends KubeObject>(
    kind: Kind<T>,
    object: T,
    options?: WriteOptions,
  ): Promise<ApiResult<T>> {
    if (object.metadata.resourceVersion === undefined) return failed(WITHOUT_VERSION);
    return this.#object({
      method: "PUT",
      path: objectPath(kind, object.metadata, undefined, queryOf(options)),
      body: typed(kind, object),
    });
  }

  async apply<T extends KubeObject>(
    kind: Kind<T>,
    object: T,
    { manager, subresource, current, isForced = true }: ApplyOptions<T>,
  ): Promise<ApiResult<{ object: T; sent: boolean }>> {
    const body = bodyOfApply(kind, object, { subresource, uid: current?.metadata.uid });
    if (current !== undefined && !applyDiffers(body, current, { manager, subresource })) {
      return { ok: true, value: { object: current, sent: false } };
    }
    const result = await this.#object<T>({
      method: "PATCH",
      path: objectPath(kind, object.metadata, subresource, {
        fieldManager: manager,
        force: String(isForced),
      }),
      contentType: "application/apply-patch+yaml",
      body: textOfBody(body),
    });
    if (result.ok) return { ok: true, value: { object: result.value, sent: true } };
    return isOtherUid(result.error) ? failed({ ...result.error, kind: "conflict" }) : result;
  }

  async jsonPatch<T extends KubeObject>(
    kind: Kind<T>,
    ref: ObjectRef,
    operations: readonly JsonPatchOp[],
    options: { readonly subresource?: "status" } = {},
  ): Promise<ApiResult<T>> {
    const result = await this.#object<T>({
      method: "PATCH",
      path: objectPath(kind, ref, options.subresource),
      contentType: "application/json-patch+json",
      body: textOfBody(operations),
    });
    return !result.ok && isFailedTest(result.error) ? failed({ ...result.error, kind: "conflict" }) : result;
  }

  async remove<T extends KubeObject>(
    kind: Kind<T>,
    ref: ObjectRef,
    { uid, resourceVersion, propagation }: RemoveOptions = {},
  ): Promise<ApiResult<void>> {
    const preconditions =
      uid === undefined && resourceVersion === undefined ? undefined : { uid, resourceVersion };
    const body = { apiVersion: "v1", kind: "DeleteOptions", preconditions, propagationPolicy: propagation };
    const response = await this.#send({
      method: "DELETE",
      path: objectPath(kind, ref),
      body: textOfBody(body),
    });
    return response.ok ? { ok: true, value: undefined } : response;
  }

  async #object<T>(call: Call): Promise<ApiResult<T>> {
    const response = await this.#send(call);
    if (!response.ok) return response;
    const value = parseJson(response.value);
    return value === undefined ? failed(failureOfBadBody(response.value)) : { ok: true, value: value as T };
  }

  #send(call: Call): Promise<ApiResult<string>> {
    const mayStart = call.method === "GET" ? undefined : this.#mayWrite;
    return this.#connection.request({ ...call, ...this.#shared, mayStart });
  }
}

function queryOf({ isDryRun = false }: WriteOptions = {}): Readonly<Record<string, string>> {
  return isDryRun ? { dryRun: "All", fieldValidation: "Strict" } : {};
}

const WITHOUT_VERSION: ApiFailure = {
  kind: "invalid",
  status: 0,
  reason: "ResourceVersionMissing",
  message: "an update must carry the resourceVersion of the object it replaces",
};

function typed<T extends KubeObject>(kind: Kind<T>, object: T): string {
  return textOfBody({ ...object, apiVersion: apiVersionOf(kind), kind: kind.kind });
}

function failed(error: ApiFailure): { readonly ok: false; readonly error: ApiFailure } {
  return { ok: false, error };
}

// A new object has the name of the intended one; the server then reports the uid as immutable.
function isOtherUid(error: ApiFailure): boolean {
  return error.status === 422 && error.message.includes("metadata.uid");
}

// The server reports a failed `test` operation as 422 with this sentence. The object has changed since it was read.
function isFailedTest(error: ApiFailure): boolean {
  return (
    error.status === 422 &&
    error.message.includes("the server rejected our request due to an error in our request")
  );
}
