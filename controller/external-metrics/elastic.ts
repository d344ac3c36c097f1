/** Starts what the controller offers to autoscalers, as far as it is on. */
import type { ListenOptions } from "../../src/http/listener.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import { keepCertificate } from "../certificates/rotation.ts";
import type { ControllerConfig } from "../config.ts";
import type { AutoscalingSettings, ExternalMetricsOwner } from "../service/autoscaling/scaler.ts";
import { externalMetricsOf, otherOwner } from "./config.ts";
import { type LoadOptions, loadRoute, serveExternalMetrics, watchLoad } from "./server.ts";

export interface Elastic {
  /** Handles requests of KEDA. */
  readonly otherwise: ListenOptions["otherwise"];
  readonly settings: () => AutoscalingSettings;
  /** Keeps the certificate while this process leads. */
  readonly onLead: (leading: LoadOptions & { readonly client: KubeClient }) => void;
}

export function startElastic(config: ControllerConfig, options: LoadOptions): Elastic {
  const { loadEndpoint } = config;
  const external = externalMetricsOf(config);
  // Until the first list, so that a start does not remove autoscalers.
  let externalMetrics: ExternalMetricsOwner = external === undefined ? "off" : "ours";
  const load = external === undefined && loadEndpoint === undefined ? undefined : watchLoad(options);
  if (external !== undefined && load !== undefined) serveExternalMetrics({ ...external, ...options }, load);
  return {
    otherwise: loadEndpoint === undefined || load === undefined ? undefined : loadRoute(load),
    settings: () => ({ externalMetrics, loadEndpoint }),
    onLead: (leading) => {
      if (external === undefined) return;
      const onPublished = (object: Parameters<typeof otherOwner>[0] | undefined) => {
        const other = object && otherOwner(object);
        externalMetrics = other === undefined ? "ours" : { other };
      };
      keepCertificate({ ...external, ...leading, onPublished });
    },
  };
}
