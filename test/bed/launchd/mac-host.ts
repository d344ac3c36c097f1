/** A replayed Mac as a host of a real cluster, by the commands that its users run. */
import { writeFileSync } from "node:fs";
import path from "node:path";
import { readPartsConfig } from "../../../local/control-plane/config.ts";
import { findLlamaServer } from "../../../local/control-plane/engine-programs.ts";
import { enginePorts } from "../ports.ts";
import { type Machine, PATIENT, type Ran, type RunOptions, STATE } from "./machine.ts";

export interface MacHostOptions {
  readonly machine: Machine;
  /** An administrator's. */
  readonly kubeconfig: string;
  readonly name: string;
  readonly address: string;
  /** Where file sources may lie. */
  readonly modelsDir: string;
  /** The release whose program administrators use, and that is installed first. */
  readonly release: string;
  /** By default the one that setup provides. */
  readonly llamaServer?: string | undefined;
}

export interface MacHost {
  readonly stateDir: string;
  /** Where join stores the credential. */
  readonly credential: string;
  /** By an administrator of the cluster; prints the join command. */
  readonly add: () => Promise<Ran>;
  readonly remove: () => Promise<Ran>;
  readonly install: () => Promise<Ran>;
  /** With the command that `host add` printed. */
  readonly join: (added: Ran) => Promise<Ran>;
  readonly doctor: (args: readonly string[], env?: RunOptions["env"]) => Promise<Ran>;
}

/** An account whose engines can be read by root only, as those of tests. */
const ACCOUNT = "farm";

export function openMacHost(options: MacHostOptions): MacHost {
  const { machine, kubeconfig, name, address, modelsDir, release } = options;
  const { llamaServer = findLlamaServer(readPartsConfig()) } = options;
  const stateDir = machine.at(STATE);
  const config = machine.at("wanted.yaml");
  machine.directory.add(ACCOUNT, 0);
  const settings = {
    hostName: name,
    addresses: [address],
    modelRoots: [modelsDir],
    portRange: enginePorts(),
    llamaServer: [llamaServer],
  };
  writeFileSync(config, JSON.stringify(settings));
  const admin = (verb: string, ...args: readonly string[]) =>
    machine.program(release, ["host", verb, name, "--kubeconfig", kubeconfig, ...args]);
  const place = ["--config", config, "--state-dir", stateDir];
  return {
    stateDir,
    credential: path.join(stateDir, "kubeconfig"),
    add: () => admin("add", "--yes", "--address", address),
    remove: () => admin("remove", "--yes"),
    install: () => machine.run(release, ["install", ...place, "--user", ACCOUNT, ...PATIENT]),
    join: ({ out }) => machine.program(machine.installed, [...out.trim().split(" ").slice(1), ...place]),
    doctor: (args, env = {}) => machine.program(machine.installed, ["doctor", ...place, ...args], { env }),
  };
}
