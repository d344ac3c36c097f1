/** What `kubectl get` shows of each kind: the story of an object in one line. */

export interface PrinterColumn {
  readonly name: string;
  readonly type: "string" | "integer" | "date" | "boolean" | "number";
  readonly jsonPath: string;
  readonly description: string;
  /** Above 0: only with `-o wide`. */
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

export const modelColumns: readonly PrinterColumn[] = [
  text("Phase", ".status.phase", "Where the model is: Pending, Downloading, Ready or Failed."),
  text("Size", ".status.size", "Size of all its files."),
  text("Quant", ".status.gguf.quantization", "Quantization of the weights."),
  text("Accelerator", ".spec.hardware.accelerator", "Where it is meant to run."),
  text("Revision", ".status.shortRevision", "First digits of the revision that replicas fetch."),
  date("Checked", ".status.checkedAt", "Time since its source was checked for changes."),
  date("Changed", ".status.changedAt", "Time since its source was first seen with this content."),
  text("Prefetched", ".status.prefetch.summary", "Hosts that have it, of those that are to prefetch it."),
  wide(text("Arch", ".status.gguf.architecture", "Architecture of the model.")),
  wide({
    name: "Context",
    type: "integer",
    jsonPath: ".status.gguf.contextLength",
    description: "Tokens it was trained for.",
  }),
  wide(text("Reason", ".status.reason", "Code for the phase.")),
  wide(text("Source", ".spec.source", "Where the weights come from.")),
  age,
];

export const serviceColumns: readonly PrinterColumn[] = [
  text("Phase", ".status.phase", "Where the service is."),
  text("Ready", ".status.ready", "Replicas that answer, of those wanted."),
  {
    name: "Up-To-Date",
    type: "integer",
    jsonPath: ".status.updatedReplicas",
    description: "Replicas of the newest revision.",
  },
  text("Model", ".spec.modelRef", "Model that is served."),
  text("Runtime", ".status.runtime", "Engine in use."),
  text("On", ".status.on", "Hosts, Pods, or both."),
  text("Endpoint", ".status.endpoint", "URL inside the cluster."),
  wide(text("Reason", ".status.reason", "Code for the phase.")),
  wide({
    name: "Queue",
    type: "integer",
    jsonPath: ".status.queuePosition",
    description: "Place in the queue for capacity.",
  }),
  wide(text("Waiting-For", ".status.waitingFor", "What is short.")),
  wide(text("Priority", ".spec.priority", "Who goes first.")),
  wide(text("Revision", ".status.updateRevision", "Revision that replicas are brought to.")),
  age,
];

export const replicaColumns: readonly PrinterColumn[] = [
  text("Phase", ".status.phase", "Where the engine is, as its agent says."),
  text("Reason", ".status.reason", "Code for the phase."),
  text("Host", ".spec.template.hostName", "Host it runs on."),
  condition("HostReachable", "HostReachable", "Is that host heard of? Ready counts only with True."),
  { name: "Port", type: "integer", jsonPath: ".status.port", description: "Port on the host." },
  wide({
    name: "Restarts",
    type: "integer",
    jsonPath: ".status.restarts",
    description: "Times it ended unasked.",
  }),
  wide(text("Service", ".spec.template.serviceName", "InferenceService it belongs to.")),
  wide(text("Runtime", ".spec.template.runtime", "Engine that runs.")),
  wide(text("Revision", ".spec.template.revision", "Revision of the template.")),
  wide(text("Message", ".status.message", "What is so, and what to do.")),
  age,
];

export const hostColumns: readonly PrinterColumn[] = [
  condition("Ready", "Ready", "The agent's own word."),
  condition("Reachable", "Reachable", "Is the agent heard of, by the controller."),
  text("Chip", ".status.info.chip", "Chip of the machine."),
  text("Memory", ".status.memory.total", "Installed memory."),
  text("Claimed", ".status.memory.claimed", "Memory claimed by replicas."),
  wide(text("Left", ".status.memory.left", "Memory left for new claims, of what engines may use together.")),
  {
    name: "Cordoned",
    type: "boolean",
    jsonPath: ".spec.unschedulable",
    description: "True: nothing new goes here.",
  },
  wide(condition("Drained", "Drained", "While spec.drain is set: has every replica left?")),
  wide(condition("Flapping", "Flapping", "True: the host is flapping, so no new replica is scheduled here.")),
  wide(text("Pressure", ".status.memory.pressure", "Memory pressure.")),
  wide(text("OS", ".status.info.osVersion", "Version of the operating system.")),
  wide(text("Agent", ".status.info.agentVersion", "Version of the agent.")),
  age,
];

export const joinRequestColumns: readonly PrinterColumn[] = [
  text("Host", ".spec.hostName", "Name that the machine asks for."),
  text("Group", ".spec.group", "Group whose token it has."),
  text("Phase", ".status.phase", "Where the request is: Pending, Admitted or Rejected."),
  text("Machine", ".spec.machine", "What it is, in its own words."),
  wide(text("Message", ".status.message", "What is the case, and what to do.")),
  age,
];
