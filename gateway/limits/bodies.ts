/**
 * How much of Envoy's memory the bodies of requests may take: it keeps each until its replica has answered. A key has at most
 * half, so that no client takes what others need. Pure.
 */

/** In full bodies: 256 MiB by default. Envoy needs two to three times as much for them. */
const HELD_BODIES = 8;
/** The end of a request may be lost, for example because the disk of the access log was full. */
const MAX_HELD_MS = 3_600_000;

export interface HeldBodies {
  /**
   * Counts the body of a request until `release`, for an hour at most. An unknown length counts as the largest body. False if it
   * has to wait until others are released.
   */
  readonly take: (id: string, caller: string, bytes: number | undefined, nowMs: number) => boolean;
  /** The whole body is there, and has so many bytes. Unknown requests are ignored, here and in `release`. */
  readonly arrived: (id: string, bytes: number) => void;
  readonly release: (id: string) => void;
  /** Their Envoy has exited. */
  readonly releaseAll: () => void;
}

interface Body {
  readonly caller: string;
  readonly bytes: number;
  readonly since: number;
}

export function createHeldBodies(maxBodyBytes: number): HeldBodies {
  /** About the oldest first. */
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
      // Envoy asks again if the answer did not arrive.
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
