/** Texts of the page of one service. */
export const serviceText = {
  endpoint: "Endpoint",
  noEndpoint: "No endpoint yet",
  of: (ready: number, desired: number) => `${ready} of ${desired} replicas ready`,
  gone: (name: string) => `${name} was deleted`,
  goneWhy: "The service was deleted while this page was open. Its Model stays.",
  missing: (name: string) => `There is no service ${name}`,
  missingWhy: "It was deleted, or the address is wrong.",
  toList: "All services",
  facts: {
    model: "Model",
    runtime: "Runtime",
    on: "Runs on",
    mode: "API",
    memory: "Memory claimed",
    age: "Age",
    priority: "Priority",
    revision: "Revision",
  },
  tabs: {
    replicas: "Replicas",
    placement: "Placement",
    rollout: "Rollout",
    logs: "Logs",
    metrics: "Metrics",
    events: "Events",
    yaml: "YAML",
  },
  actions: {
    more: "More actions",
    scale: "Scale",
    restart: "Restart",
    suspend: "Suspend",
    resume: "Resume",
    undo: "Undo rollout",
    delete: "Delete",
    playground: "Open in playground",
    notInPods: "Only pods can be restarted. To restart an engine on a host, delete its replica.",
    noUndo: "There is no earlier revision.",
    notReady: "No replica is ready.",
  },
  scale: {
    title: (name: string) => `Scale ${name}`,
    label: "Replicas",
    more: (count: number, memory: string) =>
      `${plural(count, "replica")} more${memory === "–" ? "" : `, each with about ${memory} of memory`}.`,
    fewer: (count: number, seconds: number) =>
      `${plural(count, "replica")} ${count === 1 ? "drains" : "drain"} for at most ${seconds} s, then stops.`,
    zero: "All replicas stop. The service and its address stay.",
    same: "No change.",
    autoscaled: "An autoscaler sets the replicas of this service and may change the number again.",
  },
  restart: {
    title: (name: string) => `Restart the pods of ${name}`,
    says: (pods: number) =>
      `${plural(pods, "pod")} ${pods === 1 ? "is" : "are"} replaced one after another, with the current images and defaults. The service keeps answering if it has more than one replica.`,
  },
  suspend: {
    title: (name: string) => `Suspend ${name}`,
    says: (replicas: number, seconds: number, memory: string) =>
      `${plural(replicas, "replica")} ${replicas === 1 ? "drains" : "drain"} for at most ${seconds} s, then stops. ${memory} of memory become free. Resume starts them again.`,
  },
  resume: (replicas: number) =>
    `${plural(replicas, "replica")} ${replicas === 1 ? "starts" : "start"} as soon as machines have the memory.`,
  delete: {
    title: (name: string) => `Delete ${name}`,
    says: (replicas: number, seconds: number) =>
      replicas === 0
        ? "The service has no replicas."
        : `${plural(replicas, "replica")} ${replicas === 1 ? "drains" : "drain"} for at most ${seconds} s, then stops.`,
    requests: (count: number) =>
      count === 1 ? "1 request is running." : `${count.toLocaleString("en-US")} requests are running.`,
    frees: (memory: string) => `${memory} of memory become free.`,
    keeps: "Clients get errors at its address. The Model and its files stay.",
  },
  replicas: {
    none: "No replicas",
    noneSuspended: "The service is suspended. Resume it to start its replicas.",
    noneZero: "spec.replicas is 0. Scale the service to start replicas.",
    noneWaiting: "No replica has a machine yet. The Placement tab says why.",
    noneIdle: "The replicas are unloaded. The next request starts them.",
    host: "Host",
    node: "Node",
    memory: "Memory",
    inUse: (used: string, claimed: string) => `${used} of ${claimed}`,
    context: "Context per slot",
    tokens: (count: string) => `${count} tokens`,
    restarts: "Restarts",
    speed: "Tokens/s",
    lastExit: "Last exit",
    logTail: "Last lines of its log",
    pod: "Pod",
    deleteReplica: "Replace",
  },
  placement: {
    chosen: "Chosen hosts",
    misses: "Hosts that come closest",
    missesNone: "No host was rejected for a missing replica.",
    rejected: "Rejected hosts by reason",
    hosts: (count: number) => plural(count, "host"),
    byKubernetes: "The scheduler of Kubernetes places the pods of this service.",
    nothing: "No replica has been placed yet.",
    short: (amount: string) => `${amount} missing`,
    preempted: "Preempted replicas",
    queue: (position: number) => `Position ${position} in the queue.`,
    waitingFor: (what: string) => `Waiting for ${what}.`,
    score: "Score",
    flavor: "Flavor",
  },
  yaml: {
    label: "YAML of the service",
    withStatus: "With status",
    edit: "Edit",
    cancel: "Cancel",
    check: "Check",
    save: "Save",
    saved: "Saved",
    checked: "The API server accepts this. Nothing is stored yet.",
    oneObject: "Write one object.",
    conflict: "The service was changed while you were editing",
    conflictBy: (who: string) => `${who} has changed these fields. Your edit is not stored yet.`,
    conflictBySomeone: "These fields were changed. Your edit is not stored yet.",
    merge: "Reload and keep my edit",
    discard: "Discard my edit",
    clashes: (fields: string) =>
      `Both of you changed ${fields}. The text has your value: check it before you save.`,
  },
  events: { object: "Object" },
} as const;

export function plural(count: number, what: string): string {
  return `${count.toLocaleString("en-US")} ${what}${count === 1 ? "" : "s"}`;
}
