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
  CalibrationFailed: {
    what: "llama-server did not make its buffers for a calibration model, or they could not be read.",
    do: "run the engine by hand with what the message says; on a small machine measure fewer sizes",
    command: "metalbridge calibrate --quick",
  },
  ManifestInvalid: {
    what: "A file that was given with --filename cannot be read, or does not hold one InferenceService as it could be applied; the message says where.",
    do: "correct the file",
    command: "kubectl apply --dry-run=server -f FILE",
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
  ServiceNotFound: {
    what: "There is no InferenceService of this name in the namespace.",
    do: "correct the name, or name the namespace with -n",
    command: "kubectl get isvc -A",
  },
  ReplicaNotFound: {
    what: "There is no InferenceReplica of this name in the namespace.",
    do: "correct the name, or name the namespace with -n; a replica that was replaced has another name",
    command: "kubectl get irep -A",
  },
  HostNotFound: {
    what: "There is no Host of this name.",
    do: "correct the name",
    command: "metalbridge host list",
  },
  NameAmbiguous: {
    what: "The name fits several objects.",
    do: "use one of those that the message lists",
  },
  RevisionNotFound: {
    what: "The service has no such revision: it was never there, or it is older than rollout.revisionHistoryLimit keeps.",
    do: "choose one that is kept",
    command: "metalbridge rollout history <service>",
  },
  RevisionNotRestorable: {
    what: "The revision was kept by an older controller, or changed by hand: it does not hold the spec it was made from.",
    do: "choose another revision, or apply the manifest you want",
    command: "metalbridge rollout history <service>",
  },
  RolloutNotFinished: {
    what: "The rollout was not done within --timeout; it goes on by itself.",
    do: "see what it waits for",
    command: "metalbridge describe <service>",
  },
  DrainNotFinished: {
    what: "Replicas were still on the host after --timeout; the drain goes on by itself.",
    do: "see why they stay, make room on another host, or take the drain back",
    command: "metalbridge uncordon <host>",
  },
  DrainTakenBack: {
    what: "Somebody ended the drain while it was followed: spec.drain of the Host is no longer true.",
    do: "nothing, if that was meant; otherwise drain the host again",
    command: "metalbridge drain <host>",
  },
  NotConfirmed: {
    what: "The question was not answered with yes, or there is no terminal to ask at; nothing was changed.",
    do: "answer yes, or pass --yes",
  },
  LogOnAnotherHost: {
    what: "The log of a replica is a file on the replica's own host, and that is another machine.",
    do: "run the command that the message names there, with the agent's own --config or --state-dir where it has one; if this is that host, give them here",
    command: "metalbridge logs <replica>",
  },
  LogNotFound: {
    what: "The agent's state folder on this machine holds no log of this replica.",
    do: "if the agent here uses another state folder, name it with --state-dir, or its configuration with --config; an engine that never started has no log",
    command: "metalbridge describe <replica>",
  },
  LogUnreadable: {
    what: "The log or the agent's state folder cannot be read by this user: the folder belongs to the agent's user alone.",
    do: "run it as the agent's user, or as root",
    command: "sudo metalbridge logs <replica>",
  },
} as const satisfies Record<string, ErrorEntry>;
