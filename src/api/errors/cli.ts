/** The command line and the embedded control plane. */
import type { ErrorEntry } from "./entry.ts";

export const cliErrors = {
  ClusterPartsMissing: {
    what: "A program of the embedded control plane (etcd, kube-apiserver) was not found.",
    do: "run setup, or set KUBEBUILDER_ASSETS to a folder that contains the programs",
    command: "npm run setup",
  },
  ControlPlaneRunning: {
    what: "A control plane already runs in this folder.",
    do: "use it, or stop it first",
    command: "metalbridge down --dir <folder>",
  },
  ControlPlaneNotRunning: {
    what: "No control plane runs in this folder.",
    do: "start one",
    command: "metalbridge up --dir <folder>",
  },
  ControlPlanePartFailed: {
    what: "A component of the embedded control plane exited or did not become ready.",
    do: "read the log tail in the message and fix its cause",
  },
  CalibrationFailed: {
    what: "llama-server did not allocate its buffers for a calibration model, or its report could not be parsed.",
    do: "run the engine manually with the arguments in the message; on a small machine measure fewer sizes",
    command: "metalbridge calibrate --quick",
  },
  RecordingFailed: {
    what: "`metalbridge selftest --record` could not write a recording that is complete and free of personal data.",
    do: "run it on a Mac, with a writable folder that has no recording of this machine",
    command: "metalbridge selftest --record <folder>",
  },
  McpArgumentInvalid: {
    what: "An argument of an MCP tool is invalid, or two arguments are mutually exclusive; the message names them.",
    do: "correct the arguments as described by the tool, then call it again",
  },
  MachineUnusable: {
    what: "The description of a machine is invalid: its memory is missing, negative or implausible.",
    do: "describe the machine with --memory and --chip, or wait until its agent has reported it",
    command: "metalbridge fit --memory 32Gi --chip 'M4 Pro'",
  },
  CatalogUnreadable: {
    what: "A catalog file cannot be read, or has no usable record.",
    do: "use a file of JSON lines or a JSON array; `metalbridge catalog check` lists the problems of each record",
    command: "metalbridge catalog check --catalog <file>",
  },
  CatalogModelWithoutFiles: {
    what: "The catalog has the model, but no repository with files that the engine can run.",
    do: "pass a source: hf://org/repo, https://… or ollama://name:tag; or choose an engine that runs the publisher's own files, such as --runtime vllm",
    command: "metalbridge catalog show <model>",
  },
  CatalogModelUnknown: {
    what: "No model in the catalog, or more than one, matches the name; the message lists the closest matches.",
    do: "search for it, or use the full name",
    command: "metalbridge catalog search <words>",
  },
  ManifestInvalid: {
    what: "The file in --filename cannot be read, or is not exactly one valid InferenceService; the message names the position.",
    do: "fix the file",
    command: "kubectl apply --dry-run=server -f FILE",
  },
  PortTaken: {
    what: "Another program uses the port.",
    do: "stop that program, or choose another port; 0 selects a free port",
    command: "lsof -i :<port>",
  },
  ListenFailed: {
    what: "Cannot listen on the configured address and port, although the port is free.",
    do: "choose an address of this machine, and a port above 1023 unless the process may use lower ports",
  },
  StateFolderUnusable: {
    what: "The state folder cannot be created, read or written.",
    do: "choose a folder that this user can write, with --dir, or --state-dir of the agent",
  },
  StateDiskFull: {
    what: "The disk of the state folder is full, or has too little free space to start.",
    do: "free space on that disk, or choose a folder on another disk with --dir, or --state-dir of the agent",
  },
  StateFileInvalid: {
    what: "A file in Metalbridge's state folder is corrupt.",
    do: "restore the file, or move the folder away and start with an empty one",
  },
  SchedulerConfigInvalid: {
    what: "The file in --scheduler-config cannot be read, or is not one KubeSchedulerConfiguration.",
    do: "fix the file; examples/scheduler/embedded.yaml is an example",
  },
  BadEnvironment: {
    what: "An environment variable has an invalid value.",
    do: "fix or unset the variable that the message names",
  },
  CrdInstallFailed: {
    what: "The API server rejected Metalbridge's custom resource definitions.",
    do: "check that the credential may write customresourcedefinitions, and that the API server is 1.32 or newer",
  },
  NoUsableAddress: {
    what: "This machine has no address that an EndpointSlice accepts: only loopback and link-local ones.",
    do: "connect a network, or pass an address of this machine with --address",
  },
  NoAnswer: {
    what: "A Ready engine did not answer a request as expected.",
    do: "read the engine's log, and check that its address is reachable from here",
  },
  DemoNotReady: {
    what: "The demo's service did not become Ready before the timeout.",
    do: "fix what the message names, or raise --timeout-seconds",
  },
  DemoPartEnded: {
    what: "The demo's controller or agent exited unexpectedly.",
    do: "read the log tail in the message",
  },
  NoReadyEndpoint: {
    what: "The service has no ready endpoint, so it cannot serve requests now.",
    do: "check what the service is waiting for",
    command: "metalbridge describe <service>",
  },
  SealedEndpoint: {
    what: "The hosts of the service serve only the gateways and relays of the cluster (transport Sealed), and this user may not read their certificate.",
    do: "send requests to the gateway, or to the cluster Service from a pod; or ask for the right to get the Secret metalbridge-transport in metalbridge-system",
  },
  NotAChatService: {
    what: "The service does not serve chat requests: its spec.mode is embedding or rerank.",
    do: "open a local port and send requests of its mode",
    command: "metalbridge open <service>",
  },
  ServiceExists: {
    what: "An InferenceService, or a Model with a different source, already has this name.",
    do: "choose another name with --name, or delete the one that exists",
    command: "metalbridge delete <service>",
  },
  NotReadyInTime: {
    what: "The service did not become Ready in time (deploy has --timeout); the cluster keeps trying.",
    do: "check what it is waiting for",
    command: "metalbridge describe <service>",
  },
  DeletionNotFinished: {
    what: "The deletion did not finish within --timeout; it continues in the cluster.",
    do: "check which replicas remain, and whether their hosts are reachable",
    command: "kubectl get irep",
  },
  ServiceNotFound: {
    what: "No InferenceService of this name exists in the namespace.",
    do: "fix the name, or set the namespace with -n",
    command: "kubectl get inferenceservices.metalbridge.dev -A",
  },
  ReplicaNotFound: {
    what: "No InferenceReplica of this name exists in the namespace.",
    do: "fix the name, or set the namespace with -n; the replica that replaced it has another name",
    command: "kubectl get irep -A",
  },
  HostNotFound: {
    what: "No Host of this name exists.",
    do: "fix the name",
    command: "metalbridge host list",
  },
  HostPoliciesMissing: {
    what: "The cluster lacks the roles or admission policies that restrict a host to its own objects; no credential is issued without them.",
    do: "install them, together with the CRDs",
    command: "metalbridge crds | kubectl apply --server-side -f -",
  },
  HostAddressesNeeded: {
    what: "A new Host needs at least one address or network that it may serve on.",
    do: "pass the addresses at which cluster nodes reach the machine",
    command: "metalbridge host add <host> --address <address>",
  },
  HostsFileInvalid: {
    what: "The file of `metalbridge host add -f` has errors, or contains an address of another Host. Nothing was changed.",
    do: "correct the lines that the message names",
  },
  HostsNotAdded: {
    what: "Some hosts in the file were not added; the output lists them with the reason.",
    do: "fix the cause and run the same command again: it adds only the missing hosts",
  },
  JoinGroupInvalid: {
    what: "The options of `metalbridge host token create` conflict, or an account with the name of the group exists that Metalbridge did not create.",
    do: "correct what the message names",
    command: "metalbridge host token create --help",
  },
  JoinGroupExists: {
    what: "The group already has a token. A group has one token at a time, and it cannot be shown again.",
    do: "revoke it first, or choose another group; hosts that have joined stay",
    command: "metalbridge host token revoke <group>",
  },
  JoinGroupNotFound: {
    what: "No group of this name has a join token.",
    do: "fix the name",
    command: "metalbridge host token list",
  },
  JoinRequestNotFound: {
    what: "No machine with this name is waiting for approval: its request was answered, the token of its group was revoked, or it has not sent a request yet.",
    do: "list the pending machines",
    command: "metalbridge host list",
  },
  NameAmbiguous: {
    what: "Several objects match the name.",
    do: "use one of the names that the message lists",
  },
  RevisionNotFound: {
    what: "The service has no such revision: it never existed, or rollout.revisionHistoryLimit removed it.",
    do: "choose a listed revision",
    command: "metalbridge rollout history <service>",
  },
  RevisionNotRestorable: {
    what: "The revision does not contain the spec that it was created from: it was edited.",
    do: "choose another revision, or apply the manifest you want",
    command: "metalbridge rollout history <service>",
  },
  RolloutNotFinished: {
    what: "The rollout did not finish within --timeout; it continues in the cluster.",
    do: "check what it is waiting for",
    command: "metalbridge describe <service>",
  },
  DrainNotFinished: {
    what: "The drain did not finish within --timeout; it continues in the cluster.",
    do: "check why replicas remain, free memory on another host, or cancel the drain",
    command: "metalbridge uncordon <host>",
  },
  DrainTakenBack: {
    what: "The drain was canceled while this command waited for it: spec.drain of the Host is no longer true.",
    do: "nothing to do if that was intended; otherwise drain the host again",
    command: "metalbridge drain <host>",
  },
  NotConfirmed: {
    what: "The confirmation was declined, or there is no terminal to confirm on; nothing was changed.",
    do: "confirm with yes, or pass --yes",
  },
  ModelNotStored: {
    what: "The model store of the host has no model of this source.",
    do: "copy the source from the list, or pull it first",
    command: "metalbridge models list",
  },
  ModelInUse: {
    what: "Replicas of the host use the model, so it cannot be removed.",
    do: "delete or scale down their service, or move it to another host",
    command: "metalbridge status",
  },
  ModelPinned: {
    what: "The model is pinned, so it is neither removed nor evicted.",
    do: "unpin it first",
    command: "metalbridge models unpin <source>",
  },
  ModelCommandFailed: {
    what: "The agent could not carry out a command of `metalbridge models`: it has a different version, it stopped, or an unexpected error occurred.",
    do: "read the agent's log; restart it if it is older than this program",
    command: "sudo metalbridge restart",
  },
  ModelCommandNotFinished: {
    what: "The host did not carry out the command within --timeout; it will do so as soon as it can.",
    do: "check that the host is reachable, and read its status",
    command: "kubectl get hosts -o yaml",
  },
  StoreUnreadable: {
    what: "This user can neither reach the agent nor read its model store; only the agent's user can.",
    do: "run the command as the agent's user, or as root",
    command: "sudo metalbridge models list",
  },
  LogOnAnotherHost: {
    what: "The replica's log is a file on its host, which is another machine.",
    do: "run the command in the message on that host, with the agent's --config or --state-dir if it has one; if this is that host, pass them here",
    command: "metalbridge logs <replica>",
  },
  LogNotFound: {
    what: "The agent's state folder on this machine has no log of this replica.",
    do: "if the agent uses another state folder, pass --state-dir or its --config; an engine that never started has no log",
    command: "metalbridge describe <replica>",
  },
  LogUnreadable: {
    what: "This user cannot read the log or the agent's state folder: only the agent's user can.",
    do: "run the command as the agent's user, or as root",
    command: "sudo metalbridge logs <replica>",
  },
  TerminalOnAnotherHost: {
    what: "The replica's terminal can be reached only on its host, which is another machine.",
    do: "run the command in the message on that host, with the agent's --config or --state-dir if it has one; if this is that host, pass them here",
    command: "metalbridge attach <replica>",
  },
  TerminalNotFound: {
    what: "The replica has no terminal on this machine: spec.tty of its service is not true, its program is not running, or the agent uses another state folder.",
    do: "set spec.tty (runtime generic only), or check what the replica waits for; pass --state-dir or --config if the agent has one",
    command: "metalbridge describe <replica>",
  },
  TerminalRefused: {
    what: "This user cannot connect to the replica's terminal: only the agent's user can.",
    do: "run the command as the agent's user, or as root",
    command: "sudo metalbridge attach <replica>",
  },
  NotATerminal: {
    what: "The command requires a terminal, but standard input or output is not one.",
    do: "run it in a terminal window; over ssh pass -t",
    command: "ssh -t <host> metalbridge attach <replica>",
  },
} as const satisfies Record<string, ErrorEntry>;
