/**
 * Limits the memory of Envoy for request bodies, which it keeps until a replica has answered. One key gets at most half of it, so
 * that it cannot block the others. Pure.
 */

/** In bodies of the maximum size: 256 MiB by default. Envoy needs two to three times as much memory for them. */
const HELD_BODIES = 8;
/** A backstop for requests whose end was lost. */
const MAX_HELD_MS = 3_600_000;

export interface HeldBodies {
  /**
   * Counts the body of a request until `release`, for at most an hour. A body of unknown length counts as the maximum size. False
   * if the memory is in use.
   */
  readonly take: (id: string, caller: string, bytes: number | undefined, nowMs: number) => boolean;
  /** Corrects the size once the whole body has arrived. Unknown requests are ignored, here and in `release`. */
  readonly arrived: (id: string, bytes: number) => void;
  readonly release: (id: string) => void;
  /** For an Envoy that has exited. */
  readonly releaseAll: () => void;
}

interface Body {
  readonly caller: string;
  readonly bytes: number;
  readonly since: number;
}

export function createHeldBodies(maxBodyBytes: number): HeldBodies {
  /** Roughly in order of age. */
  const held = new Map<string, Body>();
  const sums = new Map<string, number>();
  let total = 0;
  const add = (id: string, body: Body): void => {
    held.set(id, body);
    total += body.bytes;
    sums.set(body.caller, (sums.get(body.caller) ?? 0) + body.bytes);
  };
  const release = (id: string): Body | undefined => {
    const body = held.get(id);
    if (body === undefined) return undefined;
    held.delete(id);
    total -= body.bytes;
    const rest = (sums.get(body.caller) ?? 0) - body.bytes;
    if (rest > 0) sums.set(body.caller, rest);
    else sums.delete(body.caller);
    return body;
  };
  return {
    take: (id, caller, announced, nowMs) => {
      // Envoy asks again if it did not receive the response.
      release(id);
      for (const [old, { since }] of held) {
        if (nowMs - since < MAX_HELD_MS) break;
        release(old);
      }
      const bytes = Math.min(announced ?? maxBodyBytes, maxBodyBytes);
      const own = (sums.get(caller) ?? 0) + bytes;
      if (total + bytes > HELD_BODIES * maxBodyBytes || own > (HELD_BODIES / 2) * maxBodyBytes) return false;
      add(id, { caller, bytes, since: nowMs });
      return true;
    },
    arrived: (id, bytes) => {
      const body = release(id);
      if (body !== undefined) add(id, { ...body, bytes });
    },
    release: (id) => void release(id),
    releaseAll: () => {
      for (const id of [...held.keys()]) release(id);
    },
  };
}
