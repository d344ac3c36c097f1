/** Whether a machine of the network answers. */
import { connect } from "node:net";
import type { Reach } from "../../src/doctor/readings.ts";

const REACH_MS = 800;
/** Ports on which routers and computers usually accept or refuse. */
const PORTS = [53, 22, 443, 80];

/** A refusal is an answer. */
export async function tryReach(address: string): Promise<Reach> {
  const answers = await Promise.all(PORTS.map((port) => tryPort(address, port)));
  if (answers.includes("answers")) return "answers";
  return answers.every((answer) => answer === "noRoute") ? "noRoute" : "silent";
}

function tryPort(host: string, port: number): Promise<Reach> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const finish = (reach: Reach): void => {
      socket.destroy();
      resolve(reach);
    };
    socket.setTimeout(REACH_MS, () => finish("silent"));
    socket.once("connect", () => finish("answers"));
    socket.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNREFUSED" || error.code === "ECONNRESET") finish("answers");
      else finish(error.code === "EHOSTUNREACH" ? "noRoute" : "silent");
    });
  });
}
