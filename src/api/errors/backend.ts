/** BackendRuntimes: engines that users define. */
import type { ErrorEntry } from "./entry.ts";

/** Command that upgrades the CRDs and the permissions of the controller. */
export const CHART_UPGRADE =
  "helm upgrade metalbridge charts/metalbridge -n metalbridge-system --reuse-values";

export const backendErrors = {
  BackendRuntimeNotFound: {
    what: "The service names a BackendRuntime that does not exist. Replicas that already run keep running.",
    do: "create the BackendRuntime, or correct spec.backendRuntime.name",
    command: "kubectl get backendruntimes",
  },
  BackendRuntimesUnavailable: {
    what: "The service names a BackendRuntime, and the controller cannot read BackendRuntimes: the CRD is not installed, or a permission is missing, usually because only the controller was upgraded. Replicas that already run keep running, and other services are not affected.",
    do: "upgrade the CRDs and the permissions to the version of the controller; the service then continues automatically",
    command: CHART_UPGRADE,
  },
  BackendConfigNotFound: {
    what: "The service names a recommended configuration that its BackendRuntime does not have.",
    do: "correct spec.backendRuntime.config, or add the configuration to the BackendRuntime",
    command: "kubectl describe backendruntime NAME",
  },
  BackendNotForService: {
    what: "The BackendRuntime does not run the service: it has no command for hosts or no image for pods, it does not support the format, the mode or the accelerator, or its configuration needs a draft model that the service does not have.",
    do: "choose another BackendRuntime, or change the service, its Model or the BackendRuntime as described in the message",
  },
  BackendNotAllowed: {
    what: "The host, or every host that the service may use, does not allow the BackendRuntime, or its program does not exist there. A host runs its command only if the agent's configuration has its name with the path of the program.",
    do: "install the program, add the BackendRuntime with that path to backends in the agent's configuration on the hosts that may run it, and restart the agent; if host.command is an absolute path, it must be the same",
    command: "metalbridge doctor",
  },
} as const satisfies Record<string, ErrorEntry>;
