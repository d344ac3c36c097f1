/** A route's connections on which requests have come, and since when each of them waits for nothing. */
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

  /** Its answer has left. What is still to come of its body is not the next request. */
  end(request: IncomingMessage): void {
    const use = this.#uses.get(request.socket);
    if (use === undefined) return;
    const over = (): void => {
      use.requests -= 1;
      use.idleSince = performance.now();
    };
    if (request.complete) over();
    else request.once("end", over);
  }

  /** Node's own way would also cut answers that are complete, but have not left. */
  closeIdle(forMs = 0): void {
    const before = performance.now() - forMs;
    for (const [socket, { requests, idleSince }] of this.#uses)
      if (requests === 0 && idleSince <= before) socket.destroy();
  }
}
