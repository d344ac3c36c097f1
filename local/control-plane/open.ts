/** A control plane ready for use: alone on its folder, with our kinds and namespaces installed. */
import type { Log } from "../../src/util/ports.ts";
import { type CrdObject, installBasics } from "./bootstrap.ts";
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
  /** The one address to listen on; loopback unless given. */
  readonly bindAddress?: string | undefined;
  /** False by default: there are no nodes. */
  readonly scheduler?: boolean;
  /** False only for tests: a crash of the machine then loses data. */
  readonly fsync?: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Another process asked for the end (`metalbridge down`); the connection it waits on ends with this promise. */
  readonly onStopOrder: () => Promise<void>;
}

export interface OpenControlPlane {
  readonly controlPlane: ControlPlane;
  /** Stops the parts, then frees the folder. */
  readonly close: () => Promise<void>;
}

/** Throws ControlPlaneRunning when the folder is in use; on any failure nothing is left running. */
export async function openControlPlane(options: OpenOptions): Promise<OpenControlPlane> {
  ensureFolder(options.dir);
  let info: SessionInfo = { pid: process.pid, state: "starting", kubeconfig: "" };
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
  info = { pid: process.pid, state: "ready", kubeconfig, url };
  return {
    controlPlane,
    close: async () => {
      info = { ...info, state: "stopping" };
      await stop();
      session.close();
    },
  };
}
