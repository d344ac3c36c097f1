/** The models of this machine: asked of its agent; where none runs, what only needs reading is read from its store. */

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
import { becomeAgentUser } from "../install/installed-agent.ts";
import { findLocalAgent } from "../install/local-agent.ts";
import { createJsonLog } from "../program/json-log.ts";
import { writeErr } from "../program/output.ts";

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

/** Throws what the agent refuses; AgentNotRunning for a command that needs one; StoreUnreadable. */
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
      `no agent runs on ${stateDir}, and only it may change the store`,
    );
  try {
    return await readStore(stateDir, command, run);
  } catch (error) {
    const code = systemCode(error);
    if (code !== "EACCES" && code !== "EPERM") throw error;
    const message = error instanceof Error ? error.message : String(error);
    throw new MetalbridgeError("StoreUnreadable", message);
  }
}

/** Damage is said and left as it is: the next agent sets it aside. */
async function readStore(
  stateDir: string,
  command: Extract<ModelCommand, { do: "list" | "verify" }>,
  run: ModelCommandRun,
): Promise<ModelResult> {
  writeErr(`no agent runs on ${stateDir}: read from its store; which models are in use is not known\n`);
  const store = await openStore({
    ...{
      dir: path.join(stateDir, "models"),
      isReadOnly: true,
      clock: systemClock,
      log: createJsonLog("error"),
    },
    ...{ allowedRoots: [], hfEndpoint: "https://huggingface.co", reserveBytes: 0 },
  });
  if (command.do === "list") return { at: "models", models: await store.list() };
  const sources = command.sources?.map(publicSource);
  return { at: "verified", files: await store.verify({ ...run, sources }) };
}
