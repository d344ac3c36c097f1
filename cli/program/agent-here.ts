/** Which agent's state folder on this machine a verb means: the installed one's, or that of the demo that is in use. */
import { existsSync } from "node:fs";
import path from "node:path";
import { loadAgentConfig } from "../../agent/config/load.ts";
import { findSession } from "../../local/control-plane/session.ts";

export interface AgentHere {
  readonly stateDir: string;
  readonly hostName: string;
}

interface Flags {
  readonly stateDir?: string | undefined;
  readonly config?: string | undefined;
  readonly kubeconfig?: string | undefined;
}

/** The default folder of `metalbridge demo`. */
const DEMO_FOLDER = ".metalbridge";

/**
 * What the flags name. Else the demo whose kubeconfig is in use, the folder of an agent that is installed here, or the demo
 * that runs in this folder, whichever is first.
 */
export async function findAgentHere(flags: Flags, folder = DEMO_FOLDER): Promise<AgentHere> {
  const { stateDir, hostName, kubeconfig } = loadAgentConfig({
    file: flags.config,
    flags: { stateDir: flags.stateDir },
  });
  if (flags.stateDir !== undefined || flags.config !== undefined) return { stateDir, hostName };
  const ofKubeconfig = demoOf(flags.kubeconfig ?? kubeconfig);
  if (ofKubeconfig !== undefined) return { stateDir: ofKubeconfig, hostName };
  if (existsSync(stateDir)) return { stateDir, hostName };
  const running = await findSession(path.join(folder, "control-plane"));
  const ofFolder = path.join(path.resolve(folder), "agent");
  return { stateDir: running !== undefined && existsSync(ofFolder) ? ofFolder : stateDir, hostName };
}

/** The agent's folder beside the control plane that the kubeconfig leads to. */
function demoOf(kubeconfig: string | undefined): string | undefined {
  if (kubeconfig === undefined) return undefined;
  const plane = path.dirname(path.resolve(kubeconfig));
  const agent = path.join(path.dirname(plane), "agent");
  return path.basename(plane) === "control-plane" && existsSync(agent) ? agent : undefined;
}
