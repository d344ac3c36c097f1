/** What a compromised host tries beyond its kinds: Leases, Secrets, tokens, roles, everything else. */
import { credentialSecretName, hostRoleName, joinSecretName } from "../../src/api/access/roles.ts";
import { NAMESPACE_HOSTS, NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { GENERATION } from "../bed/identity.ts";
import { manifest } from "../fixtures/manifests.ts";
import {
  type Attacks,
  api,
  core,
  EVIL,
  eventOf,
  eventsPath,
  get,
  lease,
  leasesPath,
  merge,
  NAMESPACE,
  named,
  OURS,
  post,
  rbac,
  remove,
  token,
  VICTIM,
} from "./requests.ts";

export const attacksElsewhere: Attacks = {
  Leases: [
    ["read of another's", get(`${leasesPath()}/${VICTIM}`)],
    ["list", get(leasesPath())],
    ["takeover of another's", { ...post(`${leasesPath()}/${VICTIM}`, lease(VICTIM)), method: "PUT" }],
    ["patch of its own", merge(`${leasesPath()}/${EVIL}`, { metadata: { labels: { a: "b" } } })],
    ["creation of another's", post(leasesPath(), lease("evil"))],
    [
      "creation of the controller's",
      post(leasesPath(NAMESPACE_SYSTEM), {
        ...lease("metalbridge-controller"),
        metadata: { name: "metalbridge-controller" },
      }),
    ],
    ["deletion of another's", remove(`${leasesPath()}/${VICTIM}`)],
    ["deletion of its own", remove(`${leasesPath()}/${EVIL}`)],
  ],
  "Secrets and configuration": [
    ["a Secret by name", get(core("secrets/keys"))],
    ["all Secrets of a namespace", get(core("secrets"))],
    ["all Secrets", get("/api/v1/secrets")],
    ["a watch on Secrets", get("/api/v1/secrets?watch=true")],
    [
      "a Secret beside the accounts",
      get(core(`secrets/${joinSecretName(VICTIM, GENERATION)}`, NAMESPACE_HOSTS)),
    ],
    ["its own join Secret", get(core(`secrets/${joinSecretName(EVIL, GENERATION)}`, NAMESPACE_HOSTS))],
    [
      "deletion of another's join Secret",
      remove(core(`secrets/${joinSecretName(VICTIM, GENERATION)}`, NAMESPACE_HOSTS)),
    ],
    [
      "creation of a token Secret",
      post(
        core("secrets", NAMESPACE_HOSTS),
        named("v1", "Secret", { type: "kubernetes.io/service-account-token" }),
      ),
    ],
    ["change of a Secret", merge(core("secrets/keys"), { stringData: { a: "b" } })],
    ["ConfigMaps", get(core("configmaps"))],
  ],
  "tokens and identities": [
    ["a token of another host", token(VICTIM)],
    ["a token of the controller", token("metalbridge-controller", 3_600, NAMESPACE_SYSTEM)],
    ["a token of the default account", token("default", 3_600, NAMESPACE)],
    ["a token of its own for ten years", token(EVIL, 315_360_000)],
    ["a token of its own that ends with nothing", token(EVIL, 3_600, NAMESPACE_HOSTS, "")],
    ["a token of its own that ends with another Secret", token(EVIL, 3_600, NAMESPACE_HOSTS, "keys")],
    [
      "a token of its own that ends with another host's Secret",
      token(EVIL, 3_600, NAMESPACE_HOSTS, credentialSecretName(VICTIM, GENERATION)),
    ],
    [
      "its own credential's Secret",
      get(core(`secrets/${credentialSecretName(EVIL, GENERATION)}`, NAMESPACE_HOSTS)),
    ],
    [
      "deletion of its own credential's Secret",
      remove(core(`secrets/${credentialSecretName(EVIL, GENERATION)}`, NAMESPACE_HOSTS)),
    ],
    [
      "its own account's change",
      merge(core(`serviceaccounts/${EVIL}`, NAMESPACE_HOSTS), { metadata: { labels: { a: "b" } } }),
    ],
    ["another account", post(core("serviceaccounts", NAMESPACE_HOSTS), named("v1", "ServiceAccount"))],
    ["deletion of another's account", remove(core(`serviceaccounts/${VICTIM}`, NAMESPACE_HOSTS))],
    [
      "a certificate",
      post(
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        named("certificates.k8s.io/v1", "CertificateSigningRequest", {
          spec: {
            request: "eA==",
            signerName: "kubernetes.io/kube-apiserver-client",
            usages: ["client auth"],
          },
        }),
      ),
    ],
    [
      "a check of another's token",
      post(
        "/apis/authentication.k8s.io/v1/tokenreviews",
        named("authentication.k8s.io/v1", "TokenReview", { spec: { token: "x" } }),
      ),
    ],
  ],
  "roles and policies": [
    ["a wider Role", merge(rbac(`namespaces/${NAMESPACE_HOSTS}/roles/${hostRoleName(EVIL)}`), { rules: [] })],
    ["its own Role", get(rbac(`namespaces/${NAMESPACE_HOSTS}/roles/${hostRoleName(EVIL)}`))],
    [
      "a ClusterRole",
      post(rbac("clusterroles"), named("rbac.authorization.k8s.io/v1", "ClusterRole", { rules: [] })),
    ],
    [
      "cluster-admin",
      post(
        rbac("clusterrolebindings"),
        named("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", {
          roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
          subjects: [],
        }),
      ),
    ],
    [
      "the policies away",
      remove("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/metalbridge-host-replicas"),
    ],
    [
      "the bindings away",
      remove(
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/metalbridge-host-replicas",
      ),
    ],
    [
      "a webhook",
      post(
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        named("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
      ),
    ],
  ],
  "everything else": [
    [
      "a Model",
      merge(`${OURS}/namespaces/${NAMESPACE}/models/tiny`, { spec: { source: "file:///etc/passwd" } }),
    ],
    ["read of Models", get(`${OURS}/models`)],
    [
      "an InferenceService",
      merge(`${OURS}/namespaces/${NAMESPACE}/inferenceservices/chat`, { spec: { replicas: 0 } }),
    ],
    [
      "a new InferenceService",
      post(
        `${OURS}/namespaces/${NAMESPACE}/inferenceservices`,
        manifest("InferenceService", "evil", NAMESPACE),
      ),
    ],
    ["read of InferenceServices", get(`${OURS}/inferenceservices`)],
    ["a Pod", post(core("pods"), named("v1", "Pod", { spec: { containers: [{ name: "a", image: "a" }] } }))],
    ["read of Pods", get("/api/v1/pods")],
    ["a Service", post(core("services"), named("v1", "Service", { spec: { ports: [{ port: 80 }] } }))],
    ["read of Nodes", get("/api/v1/nodes")],
    ["a Namespace", post("/api/v1/namespaces", named("v1", "Namespace"))],
    ["a Deployment", get(`${api("apps")}/deployments`)],
    ["CRDs", remove("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/hosts.metalbridge.dev")],
    ["an Event in another's name", post(eventsPath(), eventOf(VICTIM))],
    ["an Event of the core group", post(core("events"), named("v1", "Event", { involvedObject: {} }))],
    ["read of Events", get(eventsPath())],
  ],
};
