/** Chooses the port of the API server. Later runs reuse it, so that kubeconfigs stay valid. */
import { createServer } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { explainListenError } from "../../../src/http/listener.ts";

const PREVIOUS_PORT_WAIT_MS = 20_000;

export interface PortRequest {
  readonly requested?: number | undefined;
  readonly previous?: number | undefined;
  readonly address: string;
  /** Time limit for a previous port to become free. */
  readonly previousWaitMs?: number;
}

/** A requested port must be free. Otherwise the previous port is preferred over any free one. */
export async function chooseApiPort(request: PortRequest): Promise<number> {
  const { requested, previous, address } = request;
  if (requested !== undefined && requested !== 0) {
    return await bindOnce(address, requested).catch((cause: unknown) => {
      throw explainListenError(cause, address, requested);
    });
  }
  if (previous !== undefined && (await becomesFree(request, previous))) return previous;
  return await bindOnce(address, 0);
}

/** The parts of a killed run may hold the port until they have exited. */
async function becomesFree(request: PortRequest, port: number): Promise<boolean> {
  const deadline = performance.now() + (request.previousWaitMs ?? PREVIOUS_PORT_WAIT_MS);
  for (;;) {
    if (await isFree(request.address, port)) return true;
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

/** Listens and closes again. Resolves with the port. */
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
