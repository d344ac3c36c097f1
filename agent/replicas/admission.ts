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
    request: { readonly claimBytes: number; readonly previousPort: number | undefined },
  ) => Promise<Reservation | "refused">;
  readonly get: (uid: string) => Reservation | undefined;
  readonly release: (uid: string) => void;
  /** A replica's port stays its own while it is stopped. */
  readonly retainPort: (uid: string, port: number) => void;
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
  const reserved = new Map<string, Reservation>();
  const retainedPorts = new Map<string, number>();
  let last: Promise<unknown> = Promise.resolve();

  const sum = (except: string | undefined): number => {
    let bytes = ports.unclaimed?.() ?? 0;
    for (const [uid, { claimBytes }] of reserved) if (uid !== except) bytes += claimBytes;
    return bytes;
  };
  const portsTakenByOthers = (uid: string): Set<number> => {
    const taken = new Set<number>();
    for (const [other, { port }] of reserved) if (other !== uid) taken.add(port);
    for (const [other, port] of retainedPorts) if (other !== uid) taken.add(port);
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
      taken: portsTakenByOthers(uid),
      previous: previousPort,
    });
    const reservation = { claimBytes, port };
    reserved.set(uid, reservation);
    retainedPorts.set(uid, port);
    return reservation;
  };
  return {
    adopt: (uid, reservation) => {
      const before = reserved.get(uid)?.claimBytes ?? 0;
      reserved.set(uid, reservation);
      retainedPorts.set(uid, reservation.port);
      if (reservation.claimBytes < before) ports.onFreed();
    },
    reserve: (uid, request) => {
      const turn = last.then(() => admit(uid, request));
      last = turn.catch(() => undefined);
      return turn;
    },
    get: (uid) => reserved.get(uid),
    release: (uid) => {
      if (reserved.delete(uid)) ports.onFreed();
    },
    retainPort: (uid, port) => retainedPorts.set(uid, port),
    forget: (uid) => {
      retainedPorts.delete(uid);
      if (reserved.delete(uid)) ports.onFreed();
    },
    othersBytes: (uid) => sum(uid),
    totalBytes: () => sum(undefined),
  };
}
