/** The command line and the embedded control plane. */
import type { ErrorEntry } from "./entry.ts";

export const cliErrors = {
  ClusterPartsMissing: {
    what: "A program of the embedded control plane (etcd, kube-apiserver) was not found.",
    do: "let setup provide it, or name a folder that holds the programs in KUBEBUILDER_ASSETS",
    command: "npm run setup",
  },
  ControlPlaneRunning: {
    what: "A control plane already runs on this folder.",
    do: "use the running one, or stop it first",
    command: "metalbridge down --dir <folder>",
  },
  ControlPlaneNotRunning: {
    what: "No control plane runs on this folder.",
    do: "start one",
    command: "metalbridge up --dir <folder>",
  },
  ControlPlanePartFailed: {
    what: "A part of the embedded control plane ended or did not become ready.",
    do: "read the end of its log, which the message holds, and remove what stops it",
  },
  PortTaken: {
    what: "The port asked for is in use by another program.",
    do: "stop that program, or choose another port, or none for a free one",
    command: "lsof -i :<port>",
  },
  StateFolderUnusable: {
    what: "The folder for the state cannot be created, read or written.",
    do: "choose a folder that this user may write to with --dir",
  },
  StateFileInvalid: {
    what: "A file that Metalbridge wrote into its state folder cannot be understood.",
    do: "restore the file, or move the folder away and start afresh",
  },
  BadEnvironment: {
    what: "An environment variable holds a value that cannot be used.",
    do: "correct or unset the variable that the message names",
  },
  CrdInstallFailed: {
    what: "The API server refused Metalbridge's custom resource definitions.",
    do: "check that the credential may write customresourcedefinitions and that the API server is 1.32 or newer",
  },
  NoUsableAddress: {
    what: "This machine has no address that an EndpointSlice may hold: only loopback and link-local ones.",
    do: "connect a network, or name an address of this machine with --address",
  },
  NoAnswer: {
    what: "An engine that is Ready did not answer a question as it should.",
    do: "read the engine's log; the address must be reachable from here",
  },
  DemoNotReady: {
    what: "The demo's service did not become Ready in time.",
    do: "do what the message says is missing, or wait longer with --timeout-seconds",
  },
  DemoPartEnded: {
    what: "The controller or the agent of the demo ended by itself.",
    do: "read the end of its log, which the message holds",
  },
} as const satisfies Record<string, ErrorEntry>;
