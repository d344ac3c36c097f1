/** The option: offers the load of services to autoscalers. */
import { z } from "zod";
import { certificateNames, listenPort } from "../../../src/api/fields/shared.ts";
import { NAMESPACE_SYSTEM } from "../../../src/api/group.ts";
import { API_SERVICES } from "../../../src/kube/kinds.ts";
import type { ApiService } from "../../../src/kube/objects.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import { CERTIFICATE_MS } from "../../frame/certificates/certificate.ts";
import { keepCertificate, type Published } from "../../frame/certificates/rotation.ts";
import type { Option } from "../../frame/option.ts";
import type { AutoscalingSource, ExternalMetricsOwner } from "../../frame/service/autoscaling.ts";
import { API_SERVICE_NAME } from "./api.ts";
import { loadRoutes, serveExternalMetrics, watchLoad } from "./server.ts";

/** Name of the Service and the Secret in the chart. */
export const EXTERNAL_METRICS_NAME = "metalbridge-external-metrics";

export const externalMetricsConfigSchema = z.strictObject({
  externalMetrics: z
    .boolean()
    .default(false)
    .describe(
      "Serve the API external.metrics.k8s.io, so that a HorizontalPodAutoscaler scales services by their requests, on hosts and in pods. A cluster has only one server of this API: leave it off if KEDA or another adapter serves it.",
    ),
  externalMetricsAddress: z
    .string()
    .min(1)
    .default("0.0.0.0")
    .describe("Address of external.metrics.k8s.io (HTTPS)."),
  externalMetricsPort: listenPort(9467, "Port of external.metrics.k8s.io. 0 selects a free port."),
  externalMetricsNames: certificateNames(
    `DNS names and addresses in the certificate, separated by commas. Default: the DNS names of the Service ${EXTERNAL_METRICS_NAME}.`,
  ),
  loadEndpoint: z
    .url({ protocol: /^https?$/ })
    .transform((url) => url.replace(/\/$/, ""))
    .optional()
    .describe(
      "URL of this controller for KEDA, which reads the requests of a service at /load/NAMESPACE/NAME of the health port. Absent: the path is not served, and services with engine KEDA need triggers.",
    ),
});

type ExternalMetricsConfig = z.output<typeof externalMetricsConfigSchema>;

export const externalMetrics: Option<typeof externalMetricsConfigSchema.shape> = {
  shape: externalMetricsConfigSchema.shape,
  start: (config, ports) => {
    const { loadEndpoint } = config;
    const external = externalMetricsOf(config);
    // Until the first list, so that a start does not remove autoscalers.
    let owner: ExternalMetricsOwner = external === undefined ? "off" : "ours";
    let changed = (): void => undefined;
    const hasReaders = ports.isDryRun !== true && (external !== undefined || loadEndpoint !== undefined);
    const load = hasReaders ? watchLoad(ports) : undefined;
    if (external !== undefined && load !== undefined) serveExternalMetrics({ ...external, ...ports }, load);
    const autoscaling: AutoscalingSource = {
      settings: () => ({ externalMetrics: owner, loadEndpoint }),
      onChange: (listener) => {
        changed = listener;
      },
    };
    return {
      routes: loadEndpoint === undefined || load === undefined ? {} : loadRoutes(load),
      onLead: (leading) => {
        if (external === undefined) return;
        const onPublished = (object: ApiService | undefined) => {
          const other = object && otherOwner(object);
          const now = other === undefined ? "ours" : { other };
          if (isDeepEqual(now, owner)) return;
          owner = now;
          changed();
        };
        keepCertificate({ ...external, ...leading, onPublished });
      },
      lead: () => ({ autoscaling }),
    };
  },
};

/** Undefined if external metrics are off. */
export function externalMetricsOf(config: ExternalMetricsConfig) {
  if (!config.externalMetrics) return undefined;
  const service = `${EXTERNAL_METRICS_NAME}.${NAMESPACE_SYSTEM}.svc`;
  const { externalMetricsNames: given, externalMetricsAddress: address, externalMetricsPort: port } = config;
  return {
    address,
    port,
    names: given.length > 0 ? given : [service, `${service}.cluster.local`],
    secret: { name: EXTERNAL_METRICS_NAME, namespace: NAMESPACE_SYSTEM },
    lifetimeMs: CERTIFICATE_MS,
    published: PUBLISHED_API,
  };
}

const PUBLISHED_API: Published<ApiService> = {
  kind: API_SERVICES,
  name: API_SERVICE_NAME,
  trust: (object, caBundle) =>
    otherOwner(object) !== undefined || object.spec.caBundle === caBundle
      ? []
      : [{ op: "add", path: "/spec/caBundle", value: caBundle }],
};

/** Namespace and name of the Service of another adapter. Undefined if the APIService is ours. */
export function otherOwner({ spec: { service } }: ApiService): string | undefined {
  const { namespace, name } = service ?? {};
  if (name === EXTERNAL_METRICS_NAME && namespace === NAMESPACE_SYSTEM) return undefined;
  return service === undefined ? "the API server" : `${namespace}/${name}`;
}
