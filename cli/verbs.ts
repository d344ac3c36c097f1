/** Every verb of `metalbridge`, one line each; a verb's file is loaded only when it is used. */
import type { Command } from "commander";

/** Adds options and the action to the verb's command. */
export type ConfigureVerb = (command: Command) => void;

/** Headings of the help, in its order: what a reader comes for. */
const groups = {
  services: "Services and models:",
  choosing: "Choosing models and machines:",
  hosts: "Hosts of a cluster:",
  machine: "This Mac or Linux host:",
  trial: "Trying it on one machine:",
  setup: "Setting up:",
  programs: "Programs that manifests and services start:",
} as const;

export interface Verb {
  readonly name: string;
  readonly summary: string;
  readonly group: keyof typeof groups;
  readonly load: () => Promise<ConfigureVerb>;
}

export const verbs: readonly Verb[] = [
  {
    name: "status",
    summary: "show hosts, services and replicas",
    group: "services",
    load: async () => (await import("./status.ts")).configureStatus,
  },
  {
    name: "get",
    summary: "list services, models, replicas or hosts as kubectl does",
    group: "services",
    load: async () => (await import("./get.ts")).configureGet,
  },
  {
    name: "top",
    summary: "watch hosts, memory, services and the queue live",
    group: "services",
    load: async () => (await import("./top.ts")).configureTop,
  },
  {
    name: "describe",
    summary: "show one replica, service or host: state, memory, recent events",
    group: "services",
    load: async () => (await import("./describe.ts")).configureDescribe,
  },
  {
    name: "logs",
    summary: "print the log of a replica's engine",
    group: "services",
    load: async () => (await import("./logs.ts")).configureLogs,
  },
  {
    name: "attach",
    summary: "connect this terminal to that of a replica's program (spec.tty)",
    group: "services",
    load: async () => (await import("./attach.ts")).configureAttach,
  },
  {
    name: "deploy",
    summary: "create a Model and a service for it, after showing where it fits",
    group: "services",
    load: async () => (await import("./deploy.ts")).configureDeploy,
  },
  {
    name: "scale",
    summary: "change how many replicas a service has",
    group: "services",
    load: async () => (await import("./scale.ts")).configureScale,
  },
  {
    name: "delete",
    summary: "delete a service, and its Model if asked",
    group: "services",
    load: async () => (await import("./delete.ts")).configureDelete,
  },
  {
    name: "chat",
    summary: "talk with a service, or ask one question",
    group: "services",
    load: async () => (await import("./chat.ts")).configureChat,
  },
  {
    name: "open",
    summary: "forward a local port to the engines of a service",
    group: "services",
    load: async () => (await import("./open.ts")).configureOpen,
  },
  {
    name: "bench",
    summary: "measure how fast a service answers",
    group: "services",
    load: async () => (await import("./bench.ts")).configureBench,
  },
  {
    name: "rollout",
    summary: "watch a rollout, list revisions, roll back, restart pods",
    group: "services",
    load: async () => (await import("./rollout.ts")).configureRollout,
  },
  {
    name: "fit",
    summary: "show which hosts a model fits on, and what would make it fit",
    group: "choosing",
    load: async () => (await import("./fit.ts")).configureFit,
  },
  {
    name: "cluster-fit",
    summary: "rank all nodes and hosts for a model, asked by short-lived pods",
    group: "choosing",
    load: async () => (await import("./cluster-fit.ts")).configureClusterFit,
  },
  {
    name: "catalog",
    summary: "list, search and check the models that are known",
    group: "choosing",
    load: async () => (await import("./catalog.ts")).configureCatalog,
  },
  {
    name: "report",
    summary: "describe hosts, nodes, what is placed and what to place again, as Markdown",
    group: "choosing",
    load: async () => (await import("./report.ts")).configureReport,
  },
  {
    name: "gguf",
    summary: "show what a GGUF file contains, and the memory it needs",
    group: "choosing",
    load: async () => (await import("./gguf.ts")).configureGguf,
  },
  {
    name: "calibrate",
    summary: "measure llama-server's buffers on this machine",
    group: "choosing",
    load: async () => (await import("./calibrate.ts")).configureCalibrate,
  },
  {
    name: "mcp",
    summary: "offer what fits where, placement and services as tools (Model Context Protocol)",
    group: "choosing",
    load: async () => (await import("./mcp.ts")).configureMcp,
  },
  {
    name: "host",
    summary: "add, remove and list hosts, or declare one lost",
    group: "hosts",
    load: async () => (await import("./host.ts")).configureHost,
  },
  {
    name: "cordon",
    summary: "mark a host as unschedulable",
    group: "hosts",
    load: async () => (await import("./cordon.ts")).configureCordon,
  },
  {
    name: "drain",
    summary: "move all replicas off a host",
    group: "hosts",
    load: async () => (await import("./drain.ts")).configureDrain,
  },
  {
    name: "uncordon",
    summary: "make a host schedulable again",
    group: "hosts",
    load: async () => (await import("./uncordon.ts")).configureUncordon,
  },
  {
    name: "models",
    summary: "list, pull, pin, remove and verify the models in a host's store",
    group: "hosts",
    load: async () => (await import("./models.ts")).configureModels,
  },
  {
    name: "doctor",
    summary: "check this machine as a host, and say what to change",
    group: "machine",
    load: async () => (await import("./doctor.ts")).configureDoctor,
  },
  {
    name: "selftest",
    summary: "prove on this machine what the agent relies on, and record its tools",
    group: "machine",
    load: async () => (await import("./selftest.ts")).configureSelftest,
  },
  {
    name: "join",
    summary: "join this machine to a cluster with a token from host add",
    group: "machine",
    load: async () => (await import("./join.ts")).configureJoin,
  },
  {
    name: "install",
    summary: "install the agent as a service of launchd or systemd",
    group: "machine",
    load: async () => (await import("./install.ts")).configureInstall,
  },
  {
    name: "upgrade",
    summary:
      "replace the installed version, here or on hosts of the cluster; rolls back if the new one does not serve",
    group: "machine",
    load: async () => (await import("./upgrade.ts")).configureUpgrade,
  },
  {
    name: "engine",
    summary: "install an engine that only root can change, pinned by its SHA-256; list, switch, remove",
    group: "machine",
    load: async () => (await import("./engine.ts")).configureEngine,
  },
  {
    name: "uninstall",
    summary: "remove the installed agent; the models stay",
    group: "machine",
    load: async () => (await import("./uninstall.ts")).configureUninstall,
  },
  {
    name: "service",
    summary: "show the installed agent's service and version",
    group: "machine",
    load: async () => (await import("./service.ts")).configureService,
  },
  {
    name: "start",
    summary: "start the installed agent",
    group: "machine",
    load: async () => (await import("./service.ts")).configureStart,
  },
  {
    name: "stop",
    summary: "stop the installed agent; its engines keep running",
    group: "machine",
    load: async () => (await import("./service.ts")).configureStop,
  },
  {
    name: "restart",
    summary: "restart the installed agent; its engines keep running",
    group: "machine",
    load: async () => (await import("./service.ts")).configureRestart,
  },
  {
    name: "demo",
    summary: "run everything on this machine and ask a model a question",
    group: "trial",
    load: async () => (await import("./demo.ts")).configureDemo,
  },
  {
    name: "up",
    summary: "start a control plane (etcd, kube-apiserver) on this machine",
    group: "trial",
    load: async () => (await import("./up.ts")).configureUp,
  },
  {
    name: "down",
    summary: "stop a control plane started with up",
    group: "trial",
    load: async () => (await import("./down.ts")).configureDown,
  },
  {
    name: "crds",
    summary: "print the custom resource definitions, roles and admission policies",
    group: "setup",
    load: async () => (await import("./crds.ts")).configureCrds,
  },
  {
    name: "completion",
    summary: "print a completion script for bash, zsh or fish",
    group: "setup",
    load: async () => (await import("./completion.ts")).configureCompletion,
  },
  {
    name: "controller",
    summary: "run the controller",
    group: "programs",
    load: async () => (await import("./controller.ts")).configureController,
  },
  {
    name: "server",
    summary: "run the density API: what fits which machine, and what is placed there",
    group: "programs",
    load: async () => (await import("./server.ts")).configureServer,
  },
  {
    name: "node",
    summary: "publish what this node of the cluster has: memory, GPUs, programs, models",
    group: "programs",
    load: async () => (await import("./node.ts")).configureNode,
  },
  {
    name: "agent",
    summary: "run the agent for this machine",
    group: "programs",
    load: async () => (await import("./agent.ts")).configureAgent,
  },
  {
    name: "fetch",
    summary: "download a model to a volume, as the Jobs of the model cache do",
    group: "programs",
    load: async () => (await import("./fetch.ts")).configureFetch,
  },
];

/** The heading that the verb stands under. */
export function headingOf({ group }: Verb): string {
  return groups[group];
}
