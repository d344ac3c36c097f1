/** The cluster Service of an InferenceService, which is the same on every path. Pure. */

import { LABEL_SERVICE, PORT_NAME } from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import { serviceName } from "../../../src/api/names.ts";
import { familyLabels, metadataOf } from "../../../src/api/owned.ts";
import type { Service, ServicePort } from "../../../src/kube/objects.ts";
import type { JsonPatchOp } from "../../../src/kube/types.ts";
import { correctFamily, correctLabels, isSame, withVersionGuards } from "./corrections.ts";
import type { ServiceStep } from "./steps.ts";

const HTTPS = "https";

export function desiredKubeService(service: InferenceService): Service {
  const { endpoint } = service.spec;
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: metadataOf(service),
    spec: {
      type: endpoint.type,
      // As in `status.selector`. It must never change.
      selector: { [LABEL_SERVICE]: service.metadata.name },
      ports: [
        {
          name: PORT_NAME,
          port: endpoint.port,
          protocol: "TCP",
          // The port of pods, by name. The slices of hosts have the ports of their replicas.
          targetPort: PORT_NAME,
          // Gateways and meshes would otherwise use plain HTTP.
          appProtocol: endpoint.tls === undefined ? undefined : HTTPS,
          nodePort: endpoint.nodePort,
        },
      ],
    },
  };
}

/** URL for clients in the cluster. */
export function serviceUrlOf({ metadata, spec }: InferenceService): string {
  const { port, path, tls } = spec.endpoint;
  return `${tls === undefined ? "http" : "https"}://${serviceName(metadata.name)}.${metadata.namespace}.svc:${port}${path}`;
}

/** Creates or corrects the Service. */
export function stepsOfKubeService(
  service: InferenceService,
  model: Model | undefined,
  object: Service | undefined,
): ServiceStep[] {
  const desired = desiredKubeService(service);
  if (object === undefined) {
    const labels = { ...desired.metadata.labels, ...familyLabels(model) };
    const created = { ...desired, metadata: { ...desired.metadata, labels } };
    return [{ do: "create", what: "kubeServices", object: created, because: "clients use its name" }];
  }
  const operations = correctKubeService(object, desired, model);
  if (operations.length === 0) return [];
  const because = "spec.endpoint of the service or spec.familyName of its Model changed";
  return [{ do: "patch", what: "kubeServices", object, operations, because }];
}

function correctKubeService(
  { metadata, spec }: Service,
  desired: Service,
  model: Model | undefined,
): JsonPatchOp[] {
  const changes: JsonPatchOp[] = [
    ...correctLabels(metadata, desired.metadata),
    ...correctFamily(metadata, model),
  ];
  const [port] = desired.spec?.ports ?? [];
  const [portNow, ...further] = spec?.ports ?? [];
  const typeChanges = spec?.type !== desired.spec?.type;
  if (typeChanges) changes.push({ op: "add", path: "/spec/type", value: desired.spec?.type });
  if (port !== undefined && (typeChanges || further.length > 0 || !isPort(portNow, port))) {
    changes.push({ op: "add", path: "/spec/ports", value: [keepNodePort(port, portNow, desired)] });
  }
  if (!isSame(spec?.selector, desired.spec?.selector)) {
    changes.push({ op: "add", path: "/spec/selector", value: desired.spec?.selector });
  }
  return withVersionGuards(metadata, changes);
}

function isPort(now: ServicePort | undefined, desired: ServicePort): boolean {
  return (
    now?.name === desired.name &&
    now?.port === desired.port &&
    now?.targetPort === desired.targetPort &&
    (now?.appProtocol === HTTPS) === (desired.appProtocol === HTTPS) &&
    (desired.nodePort === undefined || now?.nodePort === desired.nodePort)
  );
}

/** Keeps a node port that the cluster chose if the spec names none, because clients may use it. */
function keepNodePort(port: ServicePort, now: ServicePort | undefined, desired: Service): ServicePort {
  const isOnNodes = desired.spec?.type !== "ClusterIP";
  if (port.nodePort !== undefined || !isOnNodes || now?.nodePort === undefined) return port;
  return { ...port, nodePort: now.nodePort };
}
