/** Explains a failed API call to a user at a terminal: nothing is retried automatically here. */
import { MetalbridgeError, type Remedy } from "../../src/api/errors.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import type { ApiFailure, Kind, KubeObject } from "../../src/kube/types.ts";

/** What was tried: shown in the message, and in the command that asks for the right to it. */
export interface ApiAttempt {
  readonly verb: "get" | "list" | "watch" | "patch" | "create" | "delete";
  readonly kind: Kind<KubeObject>;
  readonly name?: string | undefined;
  readonly namespace?: string | undefined;
}

/** The catalog's error for a failed call, with what was tried and what to do about it here. */
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
          "check that the API server runs and that the address in the kubeconfig is right; then try again",
        command: "kubectl get --raw /readyz",
      };
    case "unauthorized":
      return {
        summary: "renew the credential in the kubeconfig, or use another one",
        command: "kubectl auth whoami",
      };
    case "conflict":
      return { summary: "it is being changed by others at this moment; try again" };
    default:
      return undefined;
  }
}
