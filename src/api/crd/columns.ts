/** Columns that `kubectl get` prints for each kind. */

export interface PrinterColumn {
  readonly name: string;
  readonly type: "string" | "integer" | "date" | "boolean" | "number";
  readonly jsonPath: string;
  readonly description: string;
  /** A column with a priority above 0 is printed with `-o wide` only. */
  readonly priority?: number;
}

const age = date("Age", ".metadata.creationTimestamp", "Time since the object was created.");

function text(name: string, jsonPath: string, description: string): PrinterColumn {
  return { name, type: "string", jsonPath, description };
}

function date(name: string, jsonPath: string, description: string): PrinterColumn {
  return { name, type: "date", jsonPath, description };
}

function wide(column: PrinterColumn): PrinterColumn {
  return { ...column, priority: 1 };
}

function condition(name: string, type: string, description: string): PrinterColumn {
  return text(name, `.status.conditions[?(@.type=="${type}")].status`, description);
}

const tokensPerSecond = wide({
  name: "Tokens/s",
  type: "number",
  jsonPath: ".status.performance.tokensPerSecond",
  description: "Tokens generated per second, as a mean over the last minute. Empty while idle.",
});

export const modelColumns: readonly PrinterColumn[] = [
  text("Phase", ".status.phase", "Phase of the Model: Pending, Downloading, Ready or Failed."),
  text("Size", ".status.size", "Total size of all files."),
  text("Quant", ".status.gguf.quantization", "Quantization of GGUF weights, read from their header."),
  text(
    "Accelerator",
    ".spec.hardware.accelerator",
    "Accelerator, which decides where services run: metal on hosts, all others in pods.",
  ),
  text("Revision", ".status.shortRevision", "First digits of the revision that replicas fetch."),
  date("Checked", ".status.checkedAt", "Time since the last successful check of the source."),
  date("Changed", ".status.changedAt", "Time since this content was first found at the source."),
  text(
    "Prefetched",
    ".status.prefetch.summary",
    "Number of hosts that have prefetched the model, of those that must.",
  ),
  wide(text("Family", ".spec.familyName", "Family of the model.")),
  wide(text("Owner", ".spec.ownedBy", "Owner of the model.")),
  wide(text("Arch", ".status.gguf.architecture", "Model architecture.")),
  wide({
    name: "Context",
    type: "integer",
    jsonPath: ".status.gguf.contextLength",
    description: "Trained context length in tokens.",
  }),
  wide(text("Reason", ".status.reason", "Reason code of the phase.")),
  wide(text("Source", ".spec.source", "Source of the weights.")),
  age,
];

export const serviceColumns: readonly PrinterColumn[] = [
  text("Phase", ".status.phase", "Phase of the service."),
  text("Ready", ".status.ready", "Number of ready and of desired replicas."),
  {
    name: "Up-To-Date",
    type: "integer",
    jsonPath: ".status.updatedReplicas",
    description: "Number of replicas of the newest revision.",
  },
  text("Model", ".status.model.name", "Model that is served."),
  text("Runtime", ".status.runtime", "Runtime in use."),
  text("On", ".status.on", "Platform of the replicas: Hosts, Pods, or both."),
  text("Endpoint", ".status.endpoint", "URL inside the cluster."),
  wide(text("Reason", ".status.reason", "Reason code of the phase.")),
  wide({
    name: "Queue",
    type: "integer",
    jsonPath: ".status.queuePosition",
    description: "Position in the scheduling queue.",
  }),
  tokensPerSecond,
  wide(text("Waiting-For", ".status.waitingFor", "Missing resource.")),
  wide(text("Priority", ".spec.priority", "Scheduling priority.")),
  wide(text("Revision", ".status.updateRevision", "Target revision of the rollout.")),
  age,
];

export const backendRuntimeColumns: readonly PrinterColumn[] = [
  text("Engine", ".spec.engine", "Runtime that the object configures."),
  text("Image", ".spec.image", "Container image."),
  text("Version", ".spec.version", "Tag of the image."),
  text("Program", ".spec.host.command[0]", "Program on hosts."),
  {
    name: "Services",
    type: "integer",
    jsonPath: ".status.services",
    description: "Number of services that use the object.",
  },
  {
    name: "Up-To-Date",
    type: "integer",
    jsonPath: ".status.updatedServices",
    description: "Number of services that use its current revision.",
  },
  wide(text("Formats", ".spec.formats", "Formats of weights.")),
  wide(text("Modes", ".spec.modes", "Modes.")),
  wide(text("Reason", ".status.reason", "Reason code of the current state.")),
  age,
];

export const replicaColumns: readonly PrinterColumn[] = [
  text("Phase", ".status.phase", "Phase of the replica."),
  text("Reason", ".status.reason", "Reason code of the phase."),
  text("Host", ".spec.template.hostName", "Host that the replica runs on."),
  condition(
    "HostReachable",
    "HostReachable",
    "True if the host is reachable. The replica is ready only then.",
  ),
  { name: "Port", type: "integer", jsonPath: ".status.port", description: "Port on the host." },
  wide({
    name: "Restarts",
    type: "integer",
    jsonPath: ".status.restarts",
    description: "Number of automatic restarts.",
  }),
  tokensPerSecond,
  wide(text("Service", ".spec.template.serviceName", "InferenceService that owns the replica.")),
  wide(text("Runtime", ".spec.template.runtime", "Runtime of the replica.")),
  wide(text("Revision", ".spec.template.revision", "Revision of the template.")),
  wide(text("Message", ".status.message", "Current state, and what to do about it.")),
  age,
];

export const hostColumns: readonly PrinterColumn[] = [
  condition("Ready", "Ready", "True if the agent reports that the host is ready."),
  condition("Reachable", "Reachable", "True if the agent renews its Lease."),
  text("Chip", ".status.info.chip", "Chip of the machine."),
  text("Memory", ".status.memory.total", "Installed memory, in bytes."),
  text("Claimed", ".status.memory.claimed", "Memory claimed by replicas."),
  wide(text("Left", ".status.memory.left", "Memory left for new claims, of the memory budget.")),
  {
    name: "Cordoned",
    type: "boolean",
    jsonPath: ".spec.unschedulable",
    description: "True if no new replica is scheduled on the host.",
  },
  wide(condition("Drained", "Drained", "With spec.drain, true once no replica is left on the host.")),
  wide(condition("Flapping", "Flapping", "True if the host is flapping; no new replica is scheduled on it.")),
  wide(text("Pressure", ".status.memory.pressure", "Memory pressure.")),
  wide(text("OS", ".status.info.osVersion", "Operating system version.")),
  wide(text("Agent", ".status.info.agentVersion", "Agent version.")),
  age,
];

export const joinRequestColumns: readonly PrinterColumn[] = [
  text("Host", ".spec.hostName", "Requested name of the Host."),
  text("Group", ".spec.group", "Group whose token the machine has."),
  text("Phase", ".status.phase", "Phase of the request: Pending, Admitted or Rejected."),
  text("Machine", ".spec.machine", "Description of the machine, as it reports it."),
  wide(text("Message", ".status.message", "Current state, and what to do about it.")),
  age,
];
