/** Checks whether names can be resolved and whether machines on the network answer. */
import { execFile } from "node:child_process";
import { connect } from "node:net";
import type { Reachability } from "../../src/doctor/readings.ts";

const REACH_MS = 800;
/** Ports on which routers and computers usually accept or refuse. */
const PORTS = [53, 22, 443, 80];

/** A refused connection counts as an answer. */
export async function tryReach(address: string): Promise<Reachability> {
  const answers = await Promise.all(PORTS.map((port) => tryPort(address, port)));
  if (answers.includes("answers")) return "answers";
  return answers.every((answer) => answer === "noRoute") ? "noRoute" : "silent";
}

function tryPort(host: string, port: number): Promise<Reachability> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const finish = (reach: Reachability): void => {
      socket.destroy();
      resolve(reach);
    };
    // Lets an answer win that arrived while this process was blocked.
    socket.setTimeout(REACH_MS, () => setImmediate(finish, "silent"));
    socket.once("connect", () => finish("answers"));
    socket.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNREFUSED" || error.code === "ECONNRESET") finish("answers");
      else finish(error.code === "EHOSTUNREACH" ? "noRoute" : "silent");
    });
  });
}

const LOOKUP_MS = 2_000;
const LOOKUP =
  "require('node:dns').lookup(process.argv[1], (error) => process.stdout.write(error === null ? '' : String(error.code)))";

/**
 * Undefined if the name can be resolved. The lookup runs in a process that can be killed: without an answer, it would block
 * one of the four threads of this process for half a minute. With all four blocked, this process could not read files or exit.
 */
export function lookupFault(name: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const options = { timeout: LOOKUP_MS, killSignal: "SIGKILL" } as const;
    execFile(process.execPath, ["-e", LOOKUP, name], options, (error, stdout) => {
      if (error === null) return resolve(stdout === "" ? undefined : stdout);
      resolve(error.killed === true ? `no answer within ${LOOKUP_MS / 1_000} s` : error.message);
    });
  });
}
