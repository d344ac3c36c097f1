/** Texts of the pages of one host and one node. */
import { plural } from "./service.ts";

export const hostText = {
  host: "Host",
  node: "Kubernetes node",
  gone: (name: string) => `Machine ${name}`,
  facts: {
    chip: "Chip",
    os: "Operating system",
    memory: "Memory",
    cores: "CPU cores",
    gpus: "GPUs",
    backend: "Backend",
    engines: "Engines",
    agent: "Agent",
    addresses: "Address",
    disk: "Disk",
    diskFree: (free: string, total: string) => `${free} free of ${total}`,
    pressure: "Memory pressure",
    lastSeen: "Last seen",
    reports: "now",
    booted: "Last boot",
    deviceClass: "Device class",
    fits: "Models that fit",
    joined: "Created",
    kubelet: "Kubelet",
  },
  memory: "Memory by claim",
  service: "Service",
  replica: "Replica",
  pod: "Pod",
  phase: "Phase",
  claimed: "Claimed",
  inUse: "In use",
  noClaims: "No replica claims memory on this machine.",
  tabs: {
    replicas: "Replicas",
    pods: "Pods",
    models: "Models on disk",
    fits: "Models that fit",
    conditions: "Conditions",
    events: "Events",
    history: "History",
    yaml: "YAML",
  },
  noReplicas: "No replica runs on this machine.",
  message: "Message",
  restarts: "Restarts",
  models: {
    source: "Model",
    size: "Size",
    used: "Last used",
    speed: "Tokens/s",
    verified: "Verified",
    state: "State",
    program: "Program",
    installed: "Models of other programs",
    installedWhy: "Metalbridge can serve them, but does not manage them.",
    leftOut: (count: number) => `${count} more are not listed.`,
    none: "The model store of this host is empty.",
    noneInstalled: "No models of other programs were found.",
    damaged: "Damaged",
    inUse: "In use",
    pinned: "Pinned",
    idle: "Idle",
  },
  fits: {
    why: (onEmpty: number) =>
      `Models of the catalog that this host can run now, in addition to its replicas, with 8,192 tokens of context. Without its replicas it can run ${onEmpty}. The controller decides on which machine a deployed model is placed: it may choose another one.`,
    none: "No model of the catalog fits now",
    noneWhy: (onEmpty: number, isCordoned: boolean) =>
      isCordoned
        ? "The host is cordoned: it takes no new replicas until it is uncordoned."
        : onEmpty === 0
          ? "The host has too little memory for engines, or has not reported it yet."
          : `${onEmpty} models fit the host without its replicas. Stop or move a replica to free memory.`,
    memory: "Memory needed / free",
    deploy: (name: string) => `Deploy ${name}`,
  },
  history: {
    none: "Nothing has changed since the host joined.",
    reachable: "Reachable",
    unreachable: "Unreachable",
    what: "What",
    change: "Change",
    when: "When",
  },
  actions: {
    cordon: "Cordon",
    uncordon: "Uncordon",
    cordonTitle: (name: string) => `Cordon ${name}?`,
    keeps: (count: number, what: string) =>
      count === 0
        ? "Nothing runs here."
        : `${plural(count, what)} ${count === 1 ? "keeps" : "keep"} running.`,
    cordonNew: "No new ones start here until it is uncordoned.",
    cordonOrDrain: "To move the replicas to other hosts as well, drain the host instead.",
    cordonWaiting: "Services that wait for it:",
    cordoned: "Cordoned",
    uncordoned: "Uncordoned: new replicas can start here.",
    drain: "Drain",
    drainTitle: (name: string) => `Drain ${name}?`,
    drainEmpty: "No replica runs here. No new replicas start here until it is uncordoned.",
    drainReplicas: (count: number) =>
      count === 1
        ? "1 replica moves to another host, and no new replicas start here."
        : `${count} replicas move to other hosts, and no new replicas start here.`,
    drainServing: (ready: number, seconds: number) =>
      `${ready === 1 ? "The Ready replica keeps" : `The ${ready} Ready replicas keep`} serving until a successor is Ready elsewhere, and then ${ready === 1 ? "drains" : "drain"} for at most ${seconds} s.`,
    drainRequests: (count: number) =>
      count === 1 ? "1 request is running." : `${count} requests are running.`,
    drainBack: "Uncordon the host at any time to cancel the drain.",
    draining: "Drain in progress",
    drained: "Drained",
    drainedWhy: "No replica is left. The host can be switched off; uncordon it to use it again.",
    drainStarting: "The controller has not reported on this drain yet.",
  },
} as const;
