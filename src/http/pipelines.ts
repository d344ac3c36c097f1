/** How many responses each connection waits for: requests may be sent before the answers to those before them. */
import type { Socket } from "node:net";

export class Pipelines {
  readonly #waiting = new WeakMap<Socket, number>();

  /** False for what comes on a connection that is cut off, because it waits for `limit` responses already, or that was. */
  begin(socket: Socket, limit: number): boolean {
    // What was read together with the request that ended it.
    if (socket.destroyed) return false;
    const waiting = this.#waiting.get(socket) ?? 0;
    if (waiting >= limit) socket.destroy();
    else this.#waiting.set(socket, waiting + 1);
    return waiting < limit;
  }

  end(socket: Socket): void {
    this.#waiting.set(socket, (this.#waiting.get(socket) ?? 1) - 1);
  }
}
