/** The cluster Service of an InferenceService: the same on every path. Pure. */
import { LABEL_SERVICE, PORT_NAME } from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { serviceName } from "../../../src/api/names.ts";
import { MANAGED_BY, ownedObjectRef, ownerLabels } from "../../../src/api/owned.ts";
import type { Service, ServicePort } from "../../../src/kube/objects.ts";
import type { JsonPatchOp } from "../../../src/kube/types.ts";
import { correctLabels, isSame, withVersionGuards } from "./corrections.ts";
import type { ServiceStep } from "./steps.ts";

const HTTPS = "https";

/** The Service's selector and `status.selector`: nothing in it can ever change. */
function selectorOf({ metadata }: InferenceService): Record<string, string> {
  return { [LABEL_SERVICE]: metadata.name };
}

export function desiredKubeService(service: InferenceService): Service {
  const { endpoint } = service.spec;
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: {
      ...ownedObjectRef(service, serviceName(service.metadata.name)),
      labels: { ...ownerLabels(service), ...MANAGED_BY },
    },
    spec: {
      type: endpoint.type,
      selector: selectorOf(service),
      ports: [
        {
          name: PORT_NAME,
          port: endpoint.port,
          protocol: "TCP",
          // Of pods, by name; the slices of hosts have the ports of their replicas.
          targetPort: PORT_NAME,
          // For gateways and meshes, which would speak plain HTTP otherwise.
          appProtocol: endpoint.tls === undefined ? undefined : HTTPS,
          nodePort: endpoint.nodePort,
        },
      ],
    },
  };
}

/** Where clients in the cluster reach it. */
export function serviceUrlOf({ metadata, spec }: InferenceService): string {
  const { port, path, tls } = spec.endpoint;
  return `${tls === undefined ? "http" : "https"}://${serviceName(metadata.name)}.${metadata.namespace}.svc:${port}${path}`;
}

/** Creates or corrects it. */
export function stepsOfKubeService(service: InferenceService, object: Service | undefined): ServiceStep[] {
  const wanted = desiredKubeService(service);
  if (object === undefined) return [{ do: "create", what: "kubeServices", object: wanted }];
  const operations = correctKubeService(object, wanted);
  if (operations.length === 0) return [];
  return [{ do: "patch", what: "kubeServices", object, operations, because: "spec.endpoint changed" }];
}

function correctKubeService({ metadata, spec }: Service, wanted: Service): JsonPatchOp[] {
  const changes: JsonPatchOp[] = [...correctLabels(metadata, wanted.metadata)];
  const [port] = wanted.spec?.ports ?? [];
  const [portNow, ...further] = spec?.ports ?? [];
  const typeChanges = spec?.type !== wanted.spec?.type;
  if (typeChanges) changes.push({ op: "add", path: "/spec/type", value: wanted.spec?.type });
  if (port !== undefined && (typeChanges || further.length > 0 || !isPort(portNow, port))) {
    changes.push({ op: "add", path: "/spec/ports", value: [keepNodePort(port, portNow, wanted)] });
  }
  if (!isSame(spec?.selector, wanted.spec?.selector)) {
    changes.push({ op: "add", path: "/spec/selector", value: wanted.spec?.selector });
  }
  return withVersionGuards(metadata, changes);
}

function isPort(now: ServicePort | undefined, wanted: ServicePort): boolean {
  return (
    now?.name === wanted.name &&
    now?.port === wanted.port &&
    now?.targetPort === wanted.targetPort &&
    (now?.appProtocol === HTTPS) === (wanted.appProtocol === HTTPS) &&
    (wanted.nodePort === undefined || now?.nodePort === wanted.nodePort)
  );
}

/** A node port that the cluster chose stays when the spec names none: clients may know it. */
function keepNodePort(port: ServicePort, now: ServicePort | undefined, wanted: Service): ServicePort {
  const isOnNodes = wanted.spec?.type !== "ClusterIP";
  if (port.nodePort !== undefined || !isOnNodes || now?.nodePort === undefined) return port;
  return { ...port, nodePort: now.nodePort };
}
