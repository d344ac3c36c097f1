/** Explains a failed API call to a user at a terminal, where nothing is retried automatically. */
import { MetalbridgeError, type Remedy } from "../../src/api/errors.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import type { ApiFailure, ApiResult, JsonPatchOp, Kind, KubeObject } from "../../src/kube/types.ts";
import type { Cluster } from "./cluster.ts";

/** A call to the API server, named in the message and in the command that checks the right to make the call. */
export interface ApiAttempt {
  readonly verb: "get" | "list" | "watch" | "patch" | "create" | "delete";
  readonly kind: Kind<KubeObject>;
  readonly name?: string | undefined;
  readonly namespace?: string | undefined;
}

/** The value of a successful call. Throws the explained failure. */
export function unwrapResult<T>(attempt: ApiAttempt, result: ApiResult<T>): T {
  if (result.ok) return result.value;
  throw explainAttempt(attempt, result.error);
}

/** Patches the object that was read, and not a later one of the same name. Throws the explained failure. */
export async function patchObject<T extends KubeObject>(
  { client }: Cluster,
  kind: Kind<T>,
  { metadata }: KubeObject,
  operations: readonly JsonPatchOp[],
): Promise<T> {
  const { name, namespace } = metadata;
  const guard: JsonPatchOp = { op: "test", path: "/metadata/uid", value: metadata.uid };
  const result = await client.jsonPatch(kind, { name, namespace }, [guard, ...operations]);
  return unwrapResult({ verb: "patch", kind, name, namespace }, result);
}

/** The catalog's error for a failed call, with the call that was made and a remedy for a user. */
export function explainAttempt(attempt: ApiAttempt, failure: ApiFailure): MetalbridgeError {
  const { code, message, remedy } = explainFailure(failure);
  const { verb, kind, name } = attempt;
  const what = `cannot ${verb} ${name === undefined ? kind.plural : `${kind.kind} ${name}`}`;
  return new MetalbridgeError(code, `${what}: ${message}`, remedyOf(attempt, failure) ?? remedy);
}

function remedyOf({ verb, kind, namespace }: ApiAttempt, failure: ApiFailure): Remedy | undefined {
  switch (failure.kind) {
    case "forbidden": {
      const place = kind.namespaced && namespace !== undefined ? ` -n ${namespace}` : "";
      const resource = kind.group === "" ? kind.plural : `${kind.plural}.${kind.group}`;
      return {
        summary: "ask an administrator for this right, or use another kubeconfig",
        command: `kubectl auth can-i ${verb} ${resource}${place}`,
      };
    }
    case "unreachable":
      return {
        summary:
          "check that the API server is running and that the kubeconfig has the right address, then try again",
        command: "kubectl get --raw /readyz",
      };
    case "unauthorized":
      return {
        summary: "renew the credential in the kubeconfig, or use another one",
        command: "kubectl auth whoami",
      };
    case "conflict":
      return { summary: "another client changed the object at the same time; try again" };
    default:
      return undefined;
  }
}
