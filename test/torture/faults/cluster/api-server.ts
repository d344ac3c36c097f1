/** The API server goes away and comes back, with or without its memory of old changes. */
import { setTimeout as pause } from "node:timers/promises";
import type { ClusterWatch } from "../../observe/cluster.ts";
import type { Fault, FaultContext } from "../fault.ts";

export const apiStop: Fault = async (context) => {
  await stop(context);
  return { at: "done", detail: "stopped in good order", heal: () => start(context) };
};

/** Its supervisor restarts it. */
export const apiKill: Fault = async (context) => {
  const { bed, recorder } = context;
  recorder.note({ type: "api", isUp: false });
  bed.controlPlane.crash("kube-apiserver");
  void untilBack(context);
  return { at: "done", detail: "killed" };
};

/** A client that resumes a watch from before gets 410 and has to relist. */
export const apiCompaction: Fault = async (context) => {
  await stop(context);
  await context.bed.compact().catch((error: unknown) => {
    // The cluster compacts on its own schedule too, and nothing was written since.
    if (!String(error).includes("has been compacted")) throw error;
  });
  return { at: "done", detail: "history dropped while it was away", heal: () => start(context) };
};

async function stop({ bed, recorder }: FaultContext): Promise<void> {
  recorder.note({ type: "api", isUp: false });
  await bed.controlPlane.stopApiServer();
}

async function start({ bed, cluster, recorder }: FaultContext): Promise<void> {
  await bed.controlPlane.startApiServer();
  recorder.note({ type: "api", isUp: true });
  lookAgain(cluster);
}

/** Our own watches would wait for up to half a minute before they try again, and see everything late. */
function lookAgain(cluster: ClusterWatch): void {
  for (const reflector of Object.values(cluster)) reflector.relist();
}

const LOOK_MS = 100;

async function untilBack(context: FaultContext): Promise<void> {
  const { cluster, recorder } = context;
  // The killed one must be gone before an answer means anything.
  await pause(LOOK_MS * 3);
  await untilUp(context);
  recorder.note({ type: "api", isUp: true });
  lookAgain(cluster);
}

export async function untilUp({ bed }: FaultContext): Promise<void> {
  for (;;) {
    const request = { method: "GET", path: "/readyz", timeoutMs: 2_000 } as const;
    const answer = await bed.connection.request(request);
    if (answer.ok) return;
    await pause(LOOK_MS);
  }
}
