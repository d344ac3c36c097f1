/** Runs a model command on this machine: by its agent, or, if no agent runs, by reading the store. */

import { tmpdir } from "node:os";
import path from "node:path";
import { openStore } from "../../agent/store/store.ts";
import type { FetchProgress } from "../../agent/store/types.ts";
import type { ModelCommand, ModelResult } from "../../agent/store-maintenance/protocol.ts";
import { sendModelCommand } from "../../agent/store-maintenance/socket.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { publicSource } from "../../src/models/source/parse.ts";
import { systemCode } from "../../src/util/atomic-file.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import { becomeAgentUser } from "../install/installed-agent.ts";
import { findLocalAgent } from "../install/local-agent.ts";
import { createJsonLog } from "../program/json-log.ts";
import { printNote } from "../program/output.ts";

export interface LocalAgentFlags {
  readonly stateDir?: string;
  readonly config?: string;
  readonly kubeconfig?: string;
  readonly root?: string;
}

export interface ModelCommandRun {
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: FetchProgress) => void;
}

/** Throws the errors of the agent, AgentNotRunning for a command that requires an agent, and StoreUnreadable. */
export async function runModelCommandLocally(
  flags: LocalAgentFlags,
  command: ModelCommand,
  run: ModelCommandRun,
): Promise<ModelResult> {
  const { stateDir, installed } = await findLocalAgent(flags);
  if (installed !== undefined) await becomeAgentUser(installed);
  const answer = await sendModelCommand({ stateDir, tempDir: tmpdir() }, command, run);
  if (answer !== undefined) return answer;
  if (command.do !== "list" && command.do !== "verify")
    throw new MetalbridgeError(
      "AgentNotRunning",
      `no agent is running on ${stateDir}, and only the agent may change the store`,
    );
  try {
    return await readStore(stateDir, command, run);
  } catch (error) {
    const code = systemCode(error);
    if (code !== "EACCES" && code !== "EPERM") throw error;
    const message = errorMessage(error);
    throw new MetalbridgeError("StoreUnreadable", message);
  }
}

/** Reports damaged files and leaves them in place: the next agent sets them aside. */
async function readStore(
  stateDir: string,
  command: Extract<ModelCommand, { do: "list" | "verify" }>,
  run: ModelCommandRun,
): Promise<ModelResult> {
  printNote(`no agent is running on ${stateDir}: reading its store; the models in use are unknown`);
  const store = await openStore({
    dir: path.join(stateDir, "models"),
    isReadOnly: true,
    clock: systemClock,
    log: createJsonLog("error"),
    allowedRoots: [],
    hfEndpoint: "https://huggingface.co",
    reserveBytes: 0,
  });
  if (command.do === "list") return { at: "models", models: await store.list() };
  const sources = command.sources?.map(publicSource);
  return { at: "verified", files: await store.verify({ ...run, sources }) };
}
