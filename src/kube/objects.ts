/** Minimal types of the Kubernetes objects that Metalbridge reads and writes. Fields that the server may omit are optional. */
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
    ipFamilies?: string[];
    ports?: ServicePort[];
    selector?: Record<string, string>;
  };
  status?: { loadBalancer?: { ingress?: { ip?: string; hostname?: string }[] } };
}

export interface Endpoint {
  addresses: string[];
  conditions?: { ready?: boolean; serving?: boolean; terminating?: boolean };
  nodeName?: string;
}

/** The server returns empty `endpoints` and `ports` as null. */
export interface EndpointSlice extends KubeObject {
  addressType: "IPv4" | "IPv6" | "FQDN";
  endpoints?: Endpoint[] | null;
  ports?: { name?: string; port?: number; protocol?: "TCP" | "UDP" | "SCTP" }[] | null;
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

/** RoleBinding or ClusterRoleBinding. `roleRef` is immutable. */
export interface RoleBinding extends KubeObject {
  subjects?: { kind: string; name: string; namespace?: string }[];
  roleRef: { apiGroup: string; kind: string; name: string };
}

/** ValidatingWebhookConfiguration; `caBundle` is base64. */
export interface ValidatingWebhooks extends KubeObject {
  webhooks?: { name: string; clientConfig: { caBundle?: string } }[];
}

/** APIService: the server of an aggregated API. The API server itself serves it without `service`. */
export interface ApiService extends KubeObject {
  spec: { service?: { namespace?: string; name?: string }; caBundle?: string };
}

/** SelfSubjectAccessReview, which the server answers and does not store. */
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
  status?: { allowed: boolean };
}

/** An account as identified by the API server. */
export interface UserInfo {
  username?: string;
  uid?: string;
  groups?: string[];
  extra?: Record<string, string[]>;
}

/** SelfSubjectReview: the account of the credential with which it is created. */
export interface SelfReview extends KubeObject {
  status?: { userInfo?: UserInfo };
}

/** TokenReview, which the server answers and does not store. */
export interface TokenReview extends KubeObject {
  spec: { token: string; audiences?: string[] };
  status?: { authenticated?: boolean; user?: UserInfo; audiences?: string[] };
}

/** SubjectAccessReview, which the server answers and does not store. */
export interface SubjectAccessReview extends AccessReview {
  spec: AccessReview["spec"] & Omit<UserInfo, "username"> & { user: string };
}

/** Wall-clock milliseconds as a MicroTime of Kubernetes, with the precision that other clients write. */
export function microTime(nowMs: number): string {
  return new Date(nowMs).toISOString().replace("Z", "000Z");
}
