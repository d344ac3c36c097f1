/** Starts what the controller offers to autoscalers, as far as it is on. */
import type { Routes } from "../../../src/http/routes.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import type { ControllerConfig } from "../../config.ts";
import { keepCertificate } from "../../frame/certificates/rotation.ts";
import type { AutoscalingSettings, ExternalMetricsOwner } from "../../services/autoscaling/scaler.ts";
import { externalMetricsOf, otherOwner } from "./config.ts";
import { type LoadOptions, loadRoutes, serveExternalMetrics, watchLoad } from "./server.ts";

/** What the installation offers to autoscalers, which changes with the owner of external.metrics.k8s.io. */
export interface AutoscalingSource {
  readonly settings: () => AutoscalingSettings;
  /** Replaces the listener. */
  readonly onChange: (listener: () => void) => void;
}

export interface Elastic {
  /** Routes for KEDA. */
  readonly routes: Routes;
  readonly autoscaling: AutoscalingSource;
  /** Keeps the certificate while this process leads. */
  readonly onLead: (leading: LoadOptions & { readonly client: KubeClient }) => void;
}

export function startElastic(config: ControllerConfig, options: LoadOptions): Elastic {
  const { loadEndpoint } = config;
  const external = externalMetricsOf(config);
  // Until the first list, so that a start does not remove autoscalers.
  let externalMetrics: ExternalMetricsOwner = external === undefined ? "off" : "ours";
  let changed = (): void => undefined;
  const load = external === undefined && loadEndpoint === undefined ? undefined : watchLoad(options);
  if (external !== undefined && load !== undefined) serveExternalMetrics({ ...external, ...options }, load);
  return {
    routes: loadEndpoint === undefined || load === undefined ? {} : loadRoutes(load),
    autoscaling: {
      settings: () => ({ externalMetrics, loadEndpoint }),
      onChange: (listener) => {
        changed = listener;
      },
    },
    onLead: (leading) => {
      if (external === undefined) return;
      const onPublished = (object: Parameters<typeof otherOwner>[0] | undefined) => {
        const other = object && otherOwner(object);
        const owner = other === undefined ? "ours" : { other };
        if (isDeepEqual(owner, externalMetrics)) return;
        externalMetrics = owner;
        changed();
      };
      keepCertificate({ ...external, ...leading, onPublished });
    },
  };
}
