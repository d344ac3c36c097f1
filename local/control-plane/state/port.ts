/** The API server's port: asked for, or that of the last run, or any free one; kept, so that kubeconfigs stay valid. */
import { createServer } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { explainListenError } from "../../../src/http/listener.ts";

const PREVIOUS_PORT_WAIT_MS = 20_000;

export interface PortRequest {
  readonly asked?: number | undefined;
  readonly previous?: number | undefined;
  readonly address: string;
  /** How long a previous port may take to become free. */
  readonly previousWaitMs?: number;
}

/** A port asked for must be free; the previous one is only preferred. */
export async function chooseApiPort(wish: PortRequest): Promise<number> {
  const { asked, previous, address } = wish;
  if (asked !== undefined && asked !== 0) {
    return await bindOnce(address, asked).catch((cause: unknown) => {
      throw explainListenError(cause, address, asked);
    });
  }
  if (previous !== undefined && (await becomesFree(wish, previous))) return previous;
  return await bindOnce(address, 0);
}

/** A run that was killed may hold the port for as long as its parts take to end. */
async function becomesFree(wish: PortRequest, port: number): Promise<boolean> {
  const deadline = performance.now() + (wish.previousWaitMs ?? PREVIOUS_PORT_WAIT_MS);
  for (;;) {
    if (await isFree(wish.address, port)) return true;
    if (performance.now() > deadline) return false;
    await pause(100);
  }
}

async function isFree(address: string, port: number): Promise<boolean> {
  return await bindOnce(address, port).then(
    () => true,
    () => false,
  );
}

/** Listens and closes again; the number is what the system gave. */
function bindOnce(address: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen({ host: address, port, exclusive: true }, () => {
      const bound = server.address();
      server.close(() => resolve(typeof bound === "object" && bound !== null ? bound.port : port));
    });
  });
}
