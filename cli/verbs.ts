/** Every verb of `metalbridge`, one line each; a verb's file is loaded only when it is used. */
import type { Command } from "commander";

/** Adds options and the action to the verb's command. */
export type ConfigureVerb = (command: Command) => void;

export interface Verb {
  readonly name: string;
  readonly summary: string;
  readonly load: () => Promise<ConfigureVerb>;
}

export const verbs: readonly Verb[] = [
  {
    name: "up",
    summary: "run a control plane in a folder",
    load: async () => (await import("./up.ts")).configureUp,
  },
  {
    name: "down",
    summary: "stop the control plane of a folder",
    load: async () => (await import("./down.ts")).configureDown,
  },
  {
    name: "crds",
    summary: "print the custom resource definitions",
    load: async () => (await import("./crds.ts")).configureCrds,
  },
  {
    name: "controller",
    summary: "run the controller",
    load: async () => (await import("./controller.ts")).configureController,
  },
  {
    name: "agent",
    summary: "run the agent of this machine",
    load: async () => (await import("./agent.ts")).configureAgent,
  },
  {
    name: "demo",
    summary: "the whole system on this machine, to an answer from a model",
    load: async () => (await import("./demo.ts")).configureDemo,
  },
  {
    name: "status",
    summary: "hosts, services and replicas on one screen",
    load: async () => (await import("./status.ts")).configureStatus,
  },
  {
    name: "describe",
    summary: "all about a replica or a service: memory, state, what happened lately",
    load: async () => (await import("./describe.ts")).configureDescribe,
  },
  {
    name: "logs",
    summary: "the log of a replica's engine",
    load: async () => (await import("./logs.ts")).configureLogs,
  },
  {
    name: "rollout",
    summary: "follow a change of a service, list its revisions, go back",
    load: async () => (await import("./rollout.ts")).configureRollout,
  },
  {
    name: "host",
    summary: "list hosts, or give one up",
    load: async () => (await import("./host.ts")).configureHost,
  },
  {
    name: "cordon",
    summary: "place nothing new on a host",
    load: async () => (await import("./cordon.ts")).configureCordon,
  },
  {
    name: "drain",
    summary: "move everything from a host elsewhere",
    load: async () => (await import("./drain.ts")).configureDrain,
  },
  {
    name: "uncordon",
    summary: "take a cordon or a drain back",
    load: async () => (await import("./uncordon.ts")).configureUncordon,
  },
  {
    name: "fit",
    summary: "on which hosts a model fits, and what would make it fit",
    load: async () => (await import("./fit.ts")).configureFit,
  },
  {
    name: "calibrate",
    summary: "measure what llama-server's buffers take on this machine",
    load: async () => (await import("./calibrate.ts")).configureCalibrate,
  },
  {
    name: "gguf",
    summary: "what a GGUF file is, and the memory it needs",
    load: async () => (await import("./gguf.ts")).configureGguf,
  },
];
