/** One more agent of a farm, on a host name, state folder and ports of its own. */
import { writeFileSync } from "node:fs";
import path from "node:path";
import { readPartsConfig } from "../../cli/control-plane/config.ts";
import { findLlamaServer } from "../../cli/control-plane/llama-server.ts";
import { killEngines } from "./engines.ts";
import type { Farm } from "./farm.ts";
import { type Part, startPart } from "./part.ts";

export interface FurtherAgentOptions {
  readonly hostName: string;
  readonly address: string;
  /** First and last. */
  readonly portRange: string;
  readonly config?: object;
}

export interface FurtherAgent extends AsyncDisposable {
  readonly hostName: string;
  readonly stateDir: string;
  readonly part: () => Part;
  /** The next on the same state folder, of another installation if one is given; the first has ended. */
  readonly restart: (program?: string) => Part;
}

/** Disposal also ends engines that it left running. */
export function startFurtherAgent(farm: Farm, options: FurtherAgentOptions): FurtherAgent {
  const { hostName, address, portRange, config } = options;
  const stateDir = path.join(farm.dir, hostName);
  const settings = path.join(farm.dir, `${hostName}.yaml`);
  writeFileSync(settings, JSON.stringify(config ?? {}));
  const engine = findLlamaServer(readPartsConfig());
  const args = [
    ...["agent", "--config", settings, "--kubeconfig", farm.kubeconfig, "--register"],
    ...["--host-name", hostName, "--address", address, "--port-range", portRange],
    ...["--state-dir", stateDir, "--model-root", farm.modelsDir],
    ...(engine === undefined ? [] : ["--llama-server", engine]),
  ];
  const start = (program?: string) => startPart(args, path.join(farm.dir, `${hostName}.log`), program);
  let part = start();
  return {
    hostName,
    stateDir,
    part: () => part,
    restart: (program) => {
      part = start(program);
      return part;
    },
    [Symbol.asyncDispose]: async () => {
      await part.kill("SIGTERM");
      killEngines(stateDir);
    },
  };
}
