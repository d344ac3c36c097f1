/** Counts the pending responses of each connection, because a client may pipeline requests. */
import type { Socket } from "node:net";

export class Pipelines {
  readonly #pending = new WeakMap<Socket, number>();

  /** Returns false and closes the connection if `limit` responses are pending. Also returns false for a closed connection. */
  begin(socket: Socket, limit: number): boolean {
    // The request was read together with the one that closed the connection.
    if (socket.destroyed) return false;
    const pending = this.#pending.get(socket) ?? 0;
    if (pending >= limit) socket.destroy();
    else this.#pending.set(socket, pending + 1);
    return pending < limit;
  }

  end(socket: Socket): void {
    this.#pending.set(socket, (this.#pending.get(socket) ?? 1) - 1);
  }
}
