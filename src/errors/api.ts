/** The API server: credentials, reachability, CRDs. */
import type { ErrorEntry } from "./entry.ts";

export const apiErrors = {
  KubeconfigMissing: {
    what: "No kubeconfig was named and none was found in the usual places.",
    do: "name one with --kubeconfig or KUBECONFIG; `metalbridge up` makes one",
    command: "metalbridge up",
  },
  KubeconfigUnreadable: {
    what: "The kubeconfig, or a file it names, cannot be read.",
    do: "check the path, the file's owner and its permissions",
  },
  KubeconfigInvalid: {
    what: "The kubeconfig is not valid: it is no YAML, or a context, cluster, user or server address is missing or malformed.",
    do: "correct the file, or choose a context that it holds with --context",
    command: "kubectl config view",
  },
  ApiCredentialUnavailable: {
    what: "The credential for the API server could not be obtained: the exec plugin failed or a token or certificate file cannot be read.",
    do: "run the plugin by hand, or restore the file that the message names; it is tried again by itself",
  },
  ApiUnauthorized: {
    what: "The API server does not accept the credential: it is expired, revoked, or of another cluster.",
    do: "give this host a new credential; a renewed kubeconfig or token file is picked up without a restart",
    command: "kubectl create token <account> -n metalbridge-hosts",
  },
  ApiForbidden: {
    what: "The API server knows the credential, but it may not do this.",
    do: "grant the right that the message names; it is tried again by itself",
    command: "kubectl auth can-i --list",
  },
  ApiCertificateUntrusted: {
    what: "The API server's certificate is not signed by the authority in the kubeconfig, or does not hold the server's name, or is expired.",
    do: "put the cluster's certificate-authority-data into the kubeconfig, and check this machine's clock",
  },
  ApiUnreachable: {
    what: "No connection to the API server: it is down, the address is wrong, or the network is in the way.",
    do: "check that the server runs and that the address in the kubeconfig is right; it is tried again by itself",
    command: "kubectl get --raw /readyz",
  },
  ApiUnavailable: {
    what: "The API server answers, but cannot serve requests at the moment.",
    do: "look at the API server's and etcd's health; it is tried again by itself",
    command: "kubectl get --raw '/readyz?verbose'",
  },
  ApiThrottled: {
    what: "The API server asks to send fewer requests.",
    do: "nothing: it is tried again later; if it stays, look at the cluster's flow control",
  },
  CrdsNotInstalled: {
    what: "The API server does not know Metalbridge's kinds.",
    do: "install the custom resource definitions; work begins by itself once they are there",
    command: "metalbridge crds | kubectl apply --server-side -f -",
  },
  ApiObjectNotFound: {
    what: "The object, or the namespace it belongs in, does not exist.",
    do: "create it, or correct the name",
  },
  ApiObjectConflict: {
    what: "The object changed, or exists already, since it was read.",
    do: "nothing: it is read and tried again by itself",
  },
  ApiObjectInvalid: {
    what: "The API server refused the object: a field holds what it may not hold.",
    do: "correct the field that the message names",
  },
  ApiObjectRefused: {
    what: "The API server does not take an object that the service needs, or a change of one: a node port is taken, or a policy or an admission webhook says no, or cannot be asked. Everything else of the service is made as far as it can be.",
    do: "remove what the message names, which holds the API server's own words, or change the spec; it is tried again by itself, at least every minute",
  },
  QuotaExceeded: {
    what: "A ResourceQuota of the namespace leaves no room for an object that the service needs.",
    do: "raise the quota, or ask for less; it is tried again by itself, at least every minute",
    command: "kubectl describe resourcequota -n NAMESPACE",
  },
  ObjectNameTaken: {
    what: "An object of the name that the service needs exists, and Metalbridge did not make it. It is left alone; for a ControllerRevision that means that this revision cannot be gone back to.",
    do: "delete or rename the object that the message names; it is looked at again by itself, at least every minute",
  },
  ApiUnexpected: {
    what: "The API server, or something in front of it, gave an answer that is not the Kubernetes API's.",
    do: "check that the address in the kubeconfig is the API server's own",
  },
} as const satisfies Record<string, ErrorEntry>;
