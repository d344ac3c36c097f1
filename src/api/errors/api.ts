/** The API server: credentials, reachability, CRDs. */
import type { ErrorEntry } from "./entry.ts";

export const apiErrors = {
  KubeconfigMissing: {
    what: "No kubeconfig was given, and none was found in the default locations.",
    do: "pass one with --kubeconfig or KUBECONFIG; `metalbridge up` creates one",
    command: "metalbridge up",
  },
  KubeconfigUnreadable: {
    what: "The kubeconfig, or a file it names, cannot be read.",
    do: "check the path, the file's owner and its permissions",
  },
  KubeconfigInvalid: {
    what: "The kubeconfig is invalid: it is not YAML, or a context, cluster, user or server address is missing or malformed.",
    do: "fix the file, or choose one of its contexts with --context",
    command: "kubectl config view",
  },
  ApiCredentialUnavailable: {
    what: "The credential for the API server could not be obtained: the exec plugin failed or a token or certificate file cannot be read.",
    do: "run the plugin manually, or restore the file that the message names; retried automatically",
  },
  ApiUnauthorized: {
    what: "The API server rejected the credential: it is expired, revoked, or from another cluster.",
    do: "issue a new credential for this host; a renewed kubeconfig or token file is picked up without a restart",
    command: "kubectl create token <account> -n metalbridge-hosts",
  },
  ApiForbidden: {
    what: "The API server accepts the credential, but RBAC or admission forbids this request.",
    do: "grant the permission that the message names; retried automatically",
    command: "kubectl auth can-i --list",
  },
  ApiCertificateUntrusted: {
    what: "The API server's certificate is not signed by the authority in the kubeconfig, does not name the server, or has expired.",
    do: "put the cluster's certificate-authority-data into the kubeconfig, and check this machine's clock",
  },
  ApiUnreachable: {
    what: "No connection to the API server: it is down, the address is wrong, or the network blocks it.",
    do: "check that the server runs and that the kubeconfig has the right address; retried automatically",
    command: "kubectl get --raw /readyz",
  },
  ApiUnavailable: {
    what: "The API server answers, but cannot serve requests now.",
    do: "check the health of the API server and etcd; retried automatically",
    command: "kubectl get --raw '/readyz?verbose'",
  },
  ApiThrottled: {
    what: "The API server throttles requests (429).",
    do: "nothing to do: retried automatically with backoff; if it persists, check the cluster's flow control (APF)",
  },
  CrdsNotInstalled: {
    what: "Metalbridge's custom resource definitions are not installed.",
    do: "install them; work starts automatically once they exist",
    command: "metalbridge crds | kubectl apply --server-side -f -",
  },
  ApiObjectNotFound: {
    what: "The object or its namespace does not exist.",
    do: "create it, or correct the name",
  },
  ApiObjectConflict: {
    what: "The object was changed or created by another client since it was read.",
    do: "nothing to do: read again and retried automatically",
  },
  ApiObjectInvalid: {
    what: "The API server rejected the object: a field is invalid.",
    do: "fix the field that the message names",
  },
  ApiObjectRefused: {
    what: "The API server rejected an object that the service needs, or a change to it: a node port is in use, or a policy or admission webhook denied it or did not answer. The rest of the service is created as far as possible.",
    do: "resolve what the message quotes from the API server, or change the spec; retried automatically, usually within 5 s",
  },
  QuotaExceeded: {
    what: "A ResourceQuota of the namespace rejected an object that the service needs.",
    do: "raise the quota, or request less; retried automatically, usually within 5 s",
    command: "kubectl describe resourcequota -n NAMESPACE",
  },
  ObjectNameTaken: {
    what: "The service needs an object of this name, but one exists that Metalbridge did not create. It is left unchanged; if it is a ControllerRevision, you cannot roll back to that revision.",
    do: "delete or rename the object that the message names; checked again automatically, usually within 5 s",
  },
  ApiUnexpected: {
    what: "The response is not from the Kubernetes API: another server answers at this address, or in front of the API server.",
    do: "check that the address in the kubeconfig is that of the API server",
  },
} as const satisfies Record<string, ErrorEntry>;
