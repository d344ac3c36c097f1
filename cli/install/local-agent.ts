/** Finds the state folder of the agent on this machine: of the installed agent, or of the demo. */
import { existsSync } from "node:fs";
import path from "node:path";
import { loadAgentConfig } from "../../agent/config/load.ts";
import { asOwnerOf } from "../../launchd/account-files.ts";
import { findControlPlaneSession } from "../../local/control-plane/session.ts";
import { currentPlatform, type InstallScopeFlags, installedChoices } from "./context.ts";

export interface LocalAgent {
  readonly stateDir: string;
  readonly hostName: string;
  /** Set for root if the folder belongs to the installed agent. Its files must be read as the account of the agent. */
  readonly installed?: InstallScopeFlags | undefined;
}

interface Flags {
  readonly stateDir?: string | undefined;
  readonly config?: string | undefined;
  readonly kubeconfig?: string | undefined;
  readonly root?: string | undefined;
}

/** The default folder of `metalbridge demo`. */
const DEMO_FOLDER = ".metalbridge";

/**
 * The flags have priority. Otherwise, the first of: the demo with the current kubeconfig, the installed agent (for root), the
 * default folder of an agent, and the demo that runs in this folder.
 */
export async function findLocalAgent(flags: Flags, folder = DEMO_FOLDER): Promise<LocalAgent> {
  const { stateDir, hostName, kubeconfig } = loadAgentConfig({
    file: flags.config,
    flags: { stateDir: flags.stateDir },
  });
  const place = { platform: currentPlatform(), root: flags.root ?? "" };
  const installed = await installedFolder(place);
  if (flags.stateDir !== undefined || flags.config !== undefined)
    return { stateDir, hostName, installed: stateDir === installed ? place : undefined };
  const ofKubeconfig = demoOf(flags.kubeconfig ?? kubeconfig);
  if (ofKubeconfig !== undefined) return { stateDir: ofKubeconfig, hostName };
  if (installed !== undefined) {
    const own = asOwnerOf(installed, () => loadAgentConfig({ flags: { stateDir: installed } }));
    return { stateDir: installed, hostName: own.hostName, installed: place };
  }
  if (existsSync(stateDir)) return { stateDir, hostName };
  // A control plane that does not answer counts as running.
  const isRunning = await findControlPlaneSession(path.join(folder, "control-plane")).then(
    (found) => found !== undefined,
    () => true,
  );
  const ofFolder = path.join(path.resolve(folder), "agent");
  return { stateDir: isRunning && existsSync(ofFolder) ? ofFolder : stateDir, hostName };
}

/** State folder of an agent that root installed on this machine; undefined for other users, who may not read it. */
async function installedFolder(place: InstallScopeFlags): Promise<string | undefined> {
  if (process.geteuid?.() !== 0) return undefined;
  const found = await installedChoices(place).catch(() => undefined);
  return found?.layout.stateDir;
}

/** The folder of the agent, next to the control plane of the kubeconfig. */
function demoOf(kubeconfig: string | undefined): string | undefined {
  if (kubeconfig === undefined) return undefined;
  const plane = path.dirname(path.resolve(kubeconfig));
  const agent = path.join(path.dirname(plane), "agent");
  return path.basename(plane) === "control-plane" && existsSync(agent) ? agent : undefined;
}
