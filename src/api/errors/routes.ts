/** Model names of services on gateways, and their routes. */
import type { ErrorEntry } from "./entry.ts";

export const routeErrors = {
  ModelNameTaken: {
    what: "A model name in spec.endpoint.modelNames (or gateway.modelName) of the service belongs to another service: an older one that uses the name, or one whose namespace and name it is. Gateways send requests for the name to that service. The message names both services.",
    do: "remove the name from one of the two services, or, to share it within a namespace, give it a weight in both; clients can always use NAMESPACE/NAME",
    command:
      "kubectl get isvc -A -o custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,NAMES:.spec.endpoint.modelNames[*].name",
  },
} as const satisfies Record<string, ErrorEntry>;
