/** Tracks a route's connections on which requests have come, and since when each of them is idle. */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";

interface Use {
  requests: number;
  idleSince: number;
}

export class IdleConnections {
  readonly #uses = new Map<Socket, Use>();

  begin({ socket }: IncomingMessage): void {
    const use = this.#uses.get(socket) ?? { requests: 0, idleSince: 0 };
    use.requests += 1;
    if (this.#uses.has(socket)) return;
    this.#uses.set(socket, use);
    socket.once("close", () => this.#uses.delete(socket));
  }

  /** The response was sent. The connection becomes idle once the body is complete: remaining bytes are not the next request. */
  end(request: IncomingMessage): void {
    const use = this.#uses.get(request.socket);
    if (use === undefined) return;
    const finish = (): void => {
      use.requests -= 1;
      use.idleSince = performance.now();
    };
    if (request.complete) finish();
    else request.once("end", finish);
  }

  /** Replaces Node's own method, which would also cut responses that are complete but not sent yet. */
  closeIdle(forMs = 0): void {
    const before = performance.now() - forMs;
    for (const [socket, { requests, idleSince }] of this.#uses)
      if (requests === 0 && idleSince <= before) socket.destroy();
  }
}
