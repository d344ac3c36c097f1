/** What the installation offers to autoscalers: its metric, and by whom it is served. */

/** Requests of a service, processed and queued, as a mean over the last minute. */
export const REQUESTS_METRIC = "metalbridge_requests_in_flight";

/** Path below the controller's URL at which KEDA reads the load of a service. */
export function loadPath(namespace: string, name: string): string {
  return `/load/${namespace}/${name}`;
}

/** Namespace and name of the Service of another adapter, or the state of our own. */
export type ExternalMetricsOwner = "ours" | "off" | { readonly other: string };

export interface AutoscalingSettings {
  /** The server of external.metrics.k8s.io: the controller, none, or another adapter, which stays. */
  readonly externalMetrics: ExternalMetricsOwner;
  /** Base URL of the controller for KEDA. */
  readonly loadEndpoint?: string | undefined;
}

/** Changes with the owner of external.metrics.k8s.io. */
export interface AutoscalingSource {
  readonly settings: () => AutoscalingSettings;
  /** Replaces the listener. */
  readonly onChange: (listener: () => void) => void;
}

/** Nothing is offered. */
export const NO_AUTOSCALING_SOURCE: AutoscalingSource = {
  settings: () => ({ externalMetrics: "off" }),
  onChange: () => {},
};
