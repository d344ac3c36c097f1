/** Where the attacks take place: names, paths and bodies of requests. */
import { credentialSecretName } from "../../src/api/access/roles.ts";
import {
  AGENT_REPORTER,
  ANNOTATION_ADDRESSES,
  LABEL_HOST,
  LABEL_SERVICE_NAME,
  LABEL_SLICE_MANAGED_BY,
  NAMESPACE_HOSTS,
  SLICE_MANAGED_BY,
} from "../../src/api/group.ts";
import type { RawRequest } from "../../src/kube/client/connect.ts";
import { microTime } from "../../src/kube/objects.ts";
import { GENERATION } from "../bed/identity.ts";

export type Request = Omit<RawRequest, "timeoutMs">;
/** Of one identity: what is denied, and what it may do by design. */
export interface Attempts {
  readonly denied: readonly (readonly [what: string, request: Request])[];
  readonly allowed: readonly (readonly [what: string, request: Request])[];
}
export type Attacks = Readonly<Record<string, readonly (readonly [what: string, request: Request])[]>>;

export const NAMESPACE = `attacked-${process.pid}`;
export const EVIL = `evil-${process.pid}`;
export const VICTIM = `victim-${process.pid}`;
export const FOREIGN_FINALIZER = "example.com/kept";
export const OWN_ADDRESS = "192.168.77.5";
export const OWN_NET_ADDRESS = "192.168.78.9";
export const TAKEN_BACK = "192.168.79.1";

export const JSON_PATCH = "application/json-patch+json";
export const MERGE = "application/merge-patch+json";
export const APPLY = "application/apply-patch+yaml";

export const api = (group: string, version = "v1") =>
  group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
export const OURS = api("metalbridge.dev", "v1alpha1");
export const hostPath = (name: string) => `${OURS}/hosts/${name}`;
export const replicaPath = (name: string) => `${OURS}/namespaces/${NAMESPACE}/inferencereplicas/${name}`;
export const slicesPath = () => `${api("discovery.k8s.io")}/namespaces/${NAMESPACE}/endpointslices`;
export const slicePath = (name: string) => `${slicesPath()}/${name}`;
export const leasesPath = (place = NAMESPACE_HOSTS) =>
  `${api("coordination.k8s.io")}/namespaces/${place}/leases`;
export const core = (what: string, place = NAMESPACE) => `${api("")}/namespaces/${place}/${what}`;
export const eventsPath = (place = NAMESPACE) => `${api("events.k8s.io")}/namespaces/${place}/events`;
export const rbac = (what: string) => `${api("rbac.authorization.k8s.io")}/${what}`;

export const get = (path: string) => ({ method: "GET" as const, path });
export const remove = (path: string) => ({ method: "DELETE" as const, path });
export const post = (path: string, body: object) => ({
  method: "POST" as const,
  path,
  body: JSON.stringify(body),
});
export const put = (path: string, body: object) => ({ ...post(path, body), method: "PUT" as const });
export const patch = (path: string, contentType: string, body: unknown) => ({
  method: "PATCH" as const,
  path,
  contentType,
  body: JSON.stringify(body),
});
export const merge = (path: string, body: object) => patch(path, MERGE, body);
export const apply = (path: string, body: object) =>
  patch(`${path}?fieldManager=metalbridge-agent&force=true`, APPLY, body);
export const endpoints = (address: string, more: object = {}) => ({
  endpoints: [{ addresses: [address], conditions: { ready: true, serving: true }, ...more }],
  ports: [{ name: "http", port: 21_000, protocol: "TCP" }],
});

export function slice(name: string, host: string, address: string, fields: object = {}): object {
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      name,
      namespace: NAMESPACE,
      labels: {
        [LABEL_HOST]: host,
        [LABEL_SERVICE_NAME]: "chat",
        [LABEL_SLICE_MANAGED_BY]: SLICE_MANAGED_BY,
      },
      annotations: { [ANNOTATION_ADDRESSES]: `${OWN_ADDRESS},192.168.78.0/24,fd00::/64` },
    },
    addressType: "IPv4",
    ...endpoints(address),
    ...fields,
  };
}

export function lease(name: string): object {
  return {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name, namespace: NAMESPACE_HOSTS },
    spec: { holderIdentity: "x", leaseDurationSeconds: 40 },
  };
}

export const aboutReplica = (name: string) => ({
  apiVersion: "metalbridge.dev/v1alpha1",
  kind: "InferenceReplica",
  name,
  namespace: NAMESPACE,
});

/** As an agent reports it about its replica, but for the given fields. */
export function eventOf(reportingInstance: string, fields: object = {}, metadata: object = {}): object {
  return {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    metadata: { generateName: "e-", namespace: NAMESPACE, ...metadata },
    eventTime: microTime(Date.now()),
    type: "Normal",
    reason: "Test",
    action: "Test",
    note: "a note",
    reportingController: AGENT_REPORTER,
    reportingInstance,
    regarding: aboutReplica("mine"),
    ...fields,
  };
}

/** `secret` is what the token ends with; "" for nothing. */
export const token = (
  account: string,
  seconds = 3_600,
  place = NAMESPACE_HOSTS,
  secret = credentialSecretName(account, GENERATION),
) =>
  post(core(`serviceaccounts/${account}/token`, place), {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    spec: {
      expirationSeconds: seconds,
      boundObjectRef: secret === "" ? undefined : { apiVersion: "v1", kind: "Secret", name: secret },
    },
  });

export function named(apiVersion: string, kind: string, fields: object = {}): object {
  return { apiVersion, kind, metadata: { name: "evil" }, ...fields };
}
