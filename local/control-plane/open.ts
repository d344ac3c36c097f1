/** Opens a control plane: the only one in its folder, with the CRDs and namespaces installed. */
import type { Log } from "../../src/util/ports.ts";
import { type CrdObject, installBasics } from "./bootstrap.ts";
import { digestOf, type SchedulerConfig } from "./components/scheduler.ts";
import type { ClusterParts } from "./parts.ts";
import { openSession, type SessionInfo } from "./session.ts";
import { type ControlPlane, startControlPlane } from "./start.ts";
import { ensureFolder } from "./state/folder.ts";

export interface OpenOptions {
  readonly dir: string;
  readonly parts: ClusterParts;
  readonly crds: readonly CrdObject[];
  readonly log: Log;
  readonly port?: number | undefined;
  /** Address to listen on. The default is loopback. */
  readonly bindAddress?: string | undefined;
  /** False by default: there are no nodes. */
  readonly scheduler?: boolean;
  /** Starts the scheduler with this configuration. */
  readonly schedulerConfig?: SchedulerConfig | undefined;
  /** Base URL of a gateway beside it, for those who ask for this session. */
  readonly baseUrl?: string | undefined;
  /** File with the address of a console beside it. */
  readonly consoleFile?: string | undefined;
  /** False only in tests, where a crash of the machine may lose data. */
  readonly fsync?: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Called when another process requests a stop (`metalbridge down`), which waits for this promise. */
  readonly onStopOrder: () => Promise<void>;
}

export interface OpenControlPlane {
  readonly controlPlane: ControlPlane;
  /** Stops the parts, then releases the folder. */
  readonly close: () => Promise<void>;
}

/** Throws ControlPlaneRunning if the folder is in use. After a failure, nothing is left running. */
export async function openControlPlane(options: OpenOptions): Promise<OpenControlPlane> {
  await ensureFolder(options.dir);
  const schedulerConfig = digestOf(options.schedulerConfig);
  const { baseUrl, consoleFile } = options;
  let info: SessionInfo = {
    pid: process.pid,
    state: "starting",
    kubeconfig: "",
    schedulerConfig,
    baseUrl,
    consoleFile,
  };
  const session = await openSession({ dir: options.dir, info: () => info, onStop: options.onStopOrder });
  let controlPlane: ControlPlane | undefined;
  try {
    controlPlane = await startControlPlane(options);
    await installBasics(controlPlane.access, options.crds);
  } catch (error) {
    await controlPlane?.stop();
    session.close();
    throw error;
  }
  const { kubeconfig, url, stop } = controlPlane;
  info = { ...info, state: "ready", kubeconfig, url };
  return {
    controlPlane,
    close: async () => {
      info = { ...info, state: "stopping" };
      await stop();
      session.close();
    },
  };
}
