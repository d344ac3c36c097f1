/** Minimal types of the Kubernetes objects that Metalbridge reads and writes; optional where the server may leave a field out. */
import type { KubeObject } from "./types.ts";

export interface Lease extends KubeObject {
  spec?: {
    holderIdentity?: string;
    leaseDurationSeconds?: number;
    acquireTime?: string;
    renewTime?: string;
    leaseTransitions?: number;
  };
}

export interface ServicePort {
  name?: string;
  port: number;
  targetPort?: number | string;
  nodePort?: number;
  protocol?: "TCP" | "UDP" | "SCTP";
  appProtocol?: string;
}

export interface Service extends KubeObject {
  spec?: {
    type?: "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName";
    clusterIP?: string;
    clusterIPs?: string[];
    ipFamilies?: ("IPv4" | "IPv6")[];
    ipFamilyPolicy?: string;
    ports?: ServicePort[];
    selector?: Record<string, string>;
    sessionAffinity?: string;
    internalTrafficPolicy?: string;
  };
  status?: { loadBalancer?: { ingress?: { ip?: string; hostname?: string }[] } };
}

export interface EndpointConditions {
  ready?: boolean;
  serving?: boolean;
  terminating?: boolean;
}

export interface Endpoint {
  addresses: string[];
  conditions?: EndpointConditions;
  hostname?: string;
  nodeName?: string;
  zone?: string;
}

export interface EndpointPort {
  name?: string;
  port?: number;
  protocol?: "TCP" | "UDP" | "SCTP";
  appProtocol?: string;
}

/** `endpoints` and `ports` come back as null when empty. */
export interface EndpointSlice extends KubeObject {
  addressType: "IPv4" | "IPv6" | "FQDN";
  endpoints?: Endpoint[] | null;
  ports?: EndpointPort[] | null;
}

export interface ObjectReference {
  apiVersion?: string;
  kind?: string;
  name?: string;
  namespace?: string;
  uid?: string;
}

/** events.k8s.io/v1. */
export interface KubeEvent extends KubeObject {
  eventTime: string;
  type?: "Normal" | "Warning";
  reason?: string;
  action?: string;
  note?: string;
  regarding?: ObjectReference;
  reportingController?: string;
  reportingInstance?: string;
  series?: { count: number; lastObservedTime: string };
}

export interface Namespace extends KubeObject {
  status?: { phase?: "Active" | "Terminating" };
}

/** `data` is base64. */
export interface Secret extends KubeObject {
  type?: string;
  data?: Record<string, string>;
  stringData?: Record<string, string>;
}

export interface ControllerRevision extends KubeObject {
  revision: number;
  data?: unknown;
}

export interface ConfigMap extends KubeObject {
  data?: Record<string, string>;
}

/** Role or ClusterRole. */
export interface Role extends KubeObject {
  rules?: {
    apiGroups?: string[];
    resources?: string[];
    resourceNames?: string[];
    verbs: string[];
  }[];
}

/** RoleBinding or ClusterRoleBinding; `roleRef` cannot be changed. */
export interface RoleBinding extends KubeObject {
  subjects?: { kind: string; name: string; namespace?: string }[];
  roleRef: { apiGroup: string; kind: string; name: string };
}

/** ValidatingWebhookConfiguration; `caBundle` is base64. */
export interface ValidatingWebhooks extends KubeObject {
  webhooks?: { name: string; clientConfig: { caBundle?: string } }[];
}

/** SelfSubjectAccessReview: a question that is answered and not kept. */
export interface AccessReview extends KubeObject {
  spec: {
    resourceAttributes: {
      group: string;
      resource: string;
      subresource?: string;
      verb: string;
      namespace?: string;
      name?: string;
    };
  };
  status?: { allowed: boolean; denied?: boolean; reason?: string };
}

/** An account as the API server knows it. */
export interface UserInfo {
  username?: string;
  uid?: string;
  groups?: string[];
  extra?: Record<string, string[]>;
}

/** A question that is answered and not kept. */
export interface TokenReview extends KubeObject {
  spec: { token: string; audiences?: string[] };
  status?: { authenticated?: boolean; user?: UserInfo; audiences?: string[]; error?: string };
}

/** As TokenReview. */
export interface SubjectAccessReview extends KubeObject {
  spec: {
    user: string;
    uid?: string;
    groups?: string[];
    extra?: Record<string, string[]>;
    resourceAttributes: AccessReview["spec"]["resourceAttributes"];
  };
  status?: { allowed: boolean; denied?: boolean; reason?: string };
}

/** Wall-clock milliseconds as a MicroTime of Kubernetes; a plain ISO string would do, with less precision than others write. */
export function microTime(nowMs: number): string {
  return new Date(nowMs).toISOString().replace("Z", "000Z");
}
