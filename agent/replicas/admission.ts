/** Memory and ports of this host: who holds what, and one serial step that reserves more. */
import { chooseEnginePort } from "../instances/process/engine-port.ts";

export interface Reservation {
  readonly claimBytes: number;
  readonly port: number;
}

export interface MemoryAdmission {
  /** Counts what a running engine holds, without asking whether it fits. */
  readonly adopt: (uid: string, reservation: Reservation) => void;
  /** "refused" when the sum no longer fits; the next plan says so with the figures. Throws when no port is free. */
  readonly reserve: (
    uid: string,
    wish: { readonly claimBytes: number; readonly previousPort: number | undefined },
  ) => Promise<Reservation | "refused">;
  readonly of: (uid: string) => Reservation | undefined;
  readonly release: (uid: string) => void;
  /** A replica's port stays its own while it is stopped. */
  readonly keepPort: (uid: string, port: number) => void;
  readonly forget: (uid: string) => void;
  readonly othersBytes: (uid: string) => number;
  readonly totalBytes: () => number;
}

/** `onFreed` is called when something was released. */
export function createMemoryAdmission(ports: {
  readonly budget: () => number | undefined;
  /** Bytes that engines take beside all claims. */
  readonly unclaimed?: () => number;
  /** What the machine could give this replica now; undefined where that is not known. */
  readonly available: (uid: string) => number | undefined;
  readonly address: () => string | undefined;
  readonly portRange: readonly [number, number];
  readonly onFreed: () => void;
}): MemoryAdmission {
  const held = new Map<string, Reservation>();
  const kept = new Map<string, number>();
  let last: Promise<unknown> = Promise.resolve();

  const sum = (except: string | undefined): number => {
    let bytes = ports.unclaimed?.() ?? 0;
    for (const [uid, { claimBytes }] of held) if (uid !== except) bytes += claimBytes;
    return bytes;
  };
  const takenBy = (uid: string): Set<number> => {
    const taken = new Set<number>();
    for (const [other, { port }] of held) if (other !== uid) taken.add(port);
    for (const [other, port] of kept) if (other !== uid) taken.add(port);
    return taken;
  };
  const admit: MemoryAdmission["reserve"] = async (uid, { claimBytes, previousPort }) => {
    const budget = ports.budget();
    if (budget === undefined || sum(uid) + claimBytes > budget) return "refused";
    if (claimBytes > (ports.available(uid) ?? claimBytes)) return "refused";
    const address = ports.address();
    const port = await chooseEnginePort({
      address,
      range: ports.portRange,
      taken: takenBy(uid),
      previous: previousPort,
    });
    const reservation = { claimBytes, port };
    held.set(uid, reservation);
    kept.set(uid, port);
    return reservation;
  };
  return {
    adopt: (uid, reservation) => {
      const before = held.get(uid)?.claimBytes ?? 0;
      held.set(uid, reservation);
      kept.set(uid, reservation.port);
      if (reservation.claimBytes < before) ports.onFreed();
    },
    reserve: (uid, wish) => {
      const turn = last.then(() => admit(uid, wish));
      last = turn.catch(() => undefined);
      return turn;
    },
    of: (uid) => held.get(uid),
    release: (uid) => {
      if (held.delete(uid)) ports.onFreed();
    },
    keepPort: (uid, port) => kept.set(uid, port),
    forget: (uid) => {
      kept.delete(uid);
      if (held.delete(uid)) ports.onFreed();
    },
    othersBytes: (uid) => sum(uid),
    totalBytes: () => sum(undefined),
  };
}
