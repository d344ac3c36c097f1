/** Every verb of `metalbridge`, by the headings of the help. The file of a verb is loaded only when the verb is used. */
import type { Command } from "commander";

/** Adds options and the action to the verb's command. */
export type ConfigureVerb = (command: Command) => void;

interface VerbEntry {
  readonly summary: string;
  readonly load: () => Promise<ConfigureVerb>;
}

export interface Verb extends VerbEntry {
  readonly name: string;
  readonly heading: string;
}

const groups: Readonly<Record<string, Readonly<Record<string, VerbEntry>>>> = {
  "Services and models:": {
    status: {
      summary: "Show hosts, services and replicas",
      load: async () => (await import("./status.ts")).configureStatus,
    },
    get: {
      summary: "List services, models, replicas or hosts, like kubectl get",
      load: async () => (await import("./get.ts")).configureGet,
    },
    console: {
      summary: "Open the console in the browser, with the rights of the kubeconfig",
      load: async () => (await import("./console.ts")).configureConsole,
    },
    top: {
      summary: "Show hosts, memory, services and queues live",
      load: async () => (await import("./top.ts")).configureTop,
    },
    describe: {
      summary: "Show the details of a replica, a service or a host, with recent events",
      load: async () => (await import("./describe.ts")).configureDescribe,
    },
    logs: {
      summary: "Print the log of a replica's engine",
      load: async () => (await import("./logs.ts")).configureLogs,
    },
    attach: {
      summary: "Attach this terminal to the program of a replica (spec.tty)",
      load: async () => (await import("./attach.ts")).configureAttach,
    },
    deploy: {
      summary: "Create a Model and a service for it, after showing where the model fits",
      load: async () => (await import("./deploy.ts")).configureDeploy,
    },
    scale: {
      summary: "Set the number of replicas of a service",
      load: async () => (await import("./scale.ts")).configureScale,
    },
    delete: {
      summary: "Delete a service, and optionally its Model",
      load: async () => (await import("./delete.ts")).configureDelete,
    },
    chat: {
      summary: "Chat with a service, or ask one question",
      load: async () => (await import("./chat.ts")).configureChat,
    },
    open: {
      summary: "Forward a local port to the engines of a service",
      load: async () => (await import("./open.ts")).configureOpen,
    },
    bench: {
      summary: "Measure the latency and throughput of a service",
      load: async () => (await import("./bench.ts")).configureBench,
    },
    rollout: {
      summary: "Manage the rollout of a service: status, history, undo, restart",
      load: async () => (await import("./rollout.ts")).configureRollout,
    },
  },
  "Choosing models and machines:": {
    fit: {
      summary: "Show which hosts a model fits on, and what would make it fit",
      load: async () => (await import("./fit.ts")).configureFit,
    },
    "cluster-fit": {
      summary: "Rank all nodes and hosts for a model, using short-lived probe pods",
      load: async () => (await import("./cluster-fit.ts")).configureClusterFit,
    },
    catalog: {
      summary: "List, search and check the models in the catalog",
      load: async () => (await import("./catalog.ts")).configureCatalog,
    },
    report: {
      summary: "Report hosts, nodes, placements and rescheduling proposals as Markdown",
      load: async () => (await import("./report.ts")).configureReport,
    },
    gguf: {
      summary: "Show the contents of a GGUF file and the memory it needs",
      load: async () => (await import("./gguf.ts")).configureGguf,
    },
    calibrate: {
      summary: "Measure the compute buffers of llama-server on this machine",
      load: async () => (await import("./calibrate.ts")).configureCalibrate,
    },
    mcp: {
      summary: "Serve fit, placement and service tools over the Model Context Protocol",
      load: async () => (await import("./mcp.ts")).configureMcp,
    },
  },
  "The gateway:": {
    key: {
      summary: "Create, list, update, rotate, disable and revoke keys of the gateway",
      load: async () => (await import("./key.ts")).configureKey,
    },
    usage: {
      summary: "Report tokens and requests of the gateway by key, model, namespace or host",
      load: async () => (await import("./usage.ts")).configureUsage,
    },
  },
  "Hosts of the cluster:": {
    host: {
      summary: "Add, list and remove hosts, or mark a host as lost",
      load: async () => (await import("./host.ts")).configureHost,
    },
    cordon: {
      summary: "Mark a host as unschedulable",
      load: async () => (await import("./cordon.ts")).configureCordon,
    },
    drain: {
      summary: "Move all replicas off a host",
      load: async () => (await import("./drain.ts")).configureDrain,
    },
    uncordon: {
      summary: "Mark a host as schedulable",
      load: async () => (await import("./cordon.ts")).configureUncordon,
    },
    models: {
      summary: "List, pull, pin, remove and verify the models stored on a host",
      load: async () => (await import("./models.ts")).configureModels,
    },
  },
  "This Mac or Linux host:": {
    doctor: {
      summary: "Check this machine as a host, and show how to fix problems",
      load: async () => (await import("./doctor.ts")).configureDoctor,
    },
    selftest: {
      summary: "Test what the agent relies on on this machine, and record its tools",
      load: async () => (await import("./selftest.ts")).configureSelftest,
    },
    join: {
      summary: "Join this machine to a cluster with a join token",
      load: async () => (await import("./join.ts")).configureJoin,
    },
    install: {
      summary: "Install the agent as a launchd or systemd service",
      load: async () => (await import("./install.ts")).configureInstall,
    },
    upgrade: {
      summary:
        "Upgrade the agent on this machine or on hosts of the cluster; rolls back if the new version does not start",
      load: async () => (await import("./upgrade.ts")).configureUpgrade,
    },
    engine: {
      summary: "Install, list, switch and remove engines that only root can change, pinned by SHA-256",
      load: async () => (await import("./engine.ts")).configureEngine,
    },
    uninstall: {
      summary: "Remove the installed agent, and keep the models",
      load: async () => (await import("./uninstall.ts")).configureUninstall,
    },
    service: {
      summary: "Show the service and the version of the installed agent",
      load: async () => (await import("./service.ts")).configureService,
    },
    start: {
      summary: "Start the installed agent",
      load: async () => (await import("./service.ts")).configureStart,
    },
    stop: {
      summary: "Stop the installed agent; its engines keep running",
      load: async () => (await import("./service.ts")).configureStop,
    },
    restart: {
      summary: "Restart the installed agent; its engines keep running",
      load: async () => (await import("./service.ts")).configureRestart,
    },
  },
  "Trying Metalbridge on one machine:": {
    demo: {
      summary: "Run everything on this machine, and ask a model a question",
      load: async () => (await import("./demo.ts")).configureDemo,
    },
    up: {
      summary: "Start a control plane (etcd, kube-apiserver) on this machine",
      load: async () => (await import("./up.ts")).configureUp,
    },
    down: {
      summary: "Stop a control plane started with up",
      load: async () => (await import("./down.ts")).configureDown,
    },
  },
  "Setup:": {
    crds: {
      summary: "Print the custom resource definitions, roles and admission policies",
      load: async () => (await import("./crds.ts")).configureCrds,
    },
    completion: {
      summary: "Print the completion script for bash, zsh or fish",
      load: async () => (await import("./completion.ts")).configureCompletion,
    },
    version: {
      summary: "Print the version of this program, as --version does",
      load: async () => (await import("./version.ts")).configureVersion,
    },
  },
  "Programs that manifests and services start:": {
    controller: {
      summary: "Run the controller",
      load: async () => (await import("./controller.ts")).configureController,
    },
    server: {
      summary: "Run the server: the density API, the console, and the extender of kube-scheduler",
      load: async () => (await import("./server.ts")).configureServer,
    },
    gateway: {
      summary: "Run the gateway, which serves all services under one base URL through Envoy",
      load: async () => (await import("./gateway.ts")).configureGateway,
    },
    relay: {
      summary: "Run the relay, which leads requests of cluster Services to sealed replicas on hosts",
      load: async () => (await import("./relay.ts")).configureRelay,
    },
    node: {
      summary: "Publish the memory, GPUs, programs and models of this node",
      load: async () => (await import("./node.ts")).configureNode,
    },
    agent: {
      summary: "Run the agent on this machine",
      load: async () => (await import("./agent.ts")).configureAgent,
    },
    fetch: {
      summary: "Download a model to a volume, as the Jobs of the model cache do",
      load: async () => (await import("./fetch.ts")).configureFetch,
    },
    "bench-job": {
      summary: "Measure one engine, as the Jobs of benchmarks do",
      load: async () => (await import("./bench-job.ts")).configureBenchJob,
    },
    "skill-sidecar": {
      summary: "Run the reading commands of an agent, as the sidecar of the skill does",
      load: async () => (await import("./skill-sidecar.ts")).configureSkillSidecar,
    },
  },
};

export const verbs: readonly Verb[] = Object.entries(groups).flatMap(([heading, entries]) =>
  Object.entries(entries).map(([name, entry]) => ({ name, heading, ...entry })),
);
