/** Memory and ports of this host: the reservation of each replica, and one serial step that reserves more. */
import { chooseEnginePort } from "../../instances/process/engine-port.ts";

export interface Reservation {
  readonly claimBytes: number;
  readonly port: number;
}

export interface MemoryAdmission {
  /** Counts the reservation of a running engine, whether it fits or not. */
  readonly adopt: (uid: string, reservation: Reservation) => void;
  /** "refused" if the sum no longer fits; the next plan reports the figures. Throws if no port is free. */
  readonly reserve: (
    uid: string,
    request: { readonly claimBytes: number; readonly previousPort: number | undefined },
  ) => Promise<Reservation | "refused">;
  readonly get: (uid: string) => Reservation | undefined;
  readonly release: (uid: string) => void;
  /** Keeps a replica's port for it while it is stopped. */
  readonly retainPort: (uid: string, port: number) => void;
  readonly forget: (uid: string) => void;
  readonly othersBytes: (uid: string) => number;
  readonly totalBytes: () => number;
}

/** `onFreed` is called whenever memory was released. */
export function createMemoryAdmission(ports: {
  readonly budget: () => number | undefined;
  /** Bytes that engines use in addition to all claims. */
  readonly unclaimed?: () => number;
  /** Memory available to the replica now; undefined if that is not known. */
  readonly available: (uid: string) => number | undefined;
  readonly address: () => string | undefined;
  readonly portRange: readonly [number, number];
  readonly onFreed: () => void;
}): MemoryAdmission {
  const reserved = new Map<string, Reservation>();
  /** Includes the ports of all reservations. */
  const retainedPorts = new Map<string, number>();
  let last: Promise<unknown> = Promise.resolve();

  const sum = (except: string | undefined): number => {
    let bytes = ports.unclaimed?.() ?? 0;
    for (const [uid, { claimBytes }] of reserved) if (uid !== except) bytes += claimBytes;
    return bytes;
  };
  const portsOfOthers = (uid: string): Set<number> =>
    new Set([...retainedPorts].filter(([other]) => other !== uid).map(([, port]) => port));
  const admit: MemoryAdmission["reserve"] = async (uid, { claimBytes, previousPort }) => {
    const budget = ports.budget();
    if (budget === undefined || sum(uid) + claimBytes > budget) return "refused";
    if (claimBytes > (ports.available(uid) ?? claimBytes)) return "refused";
    const port = await chooseEnginePort({
      address: ports.address(),
      range: ports.portRange,
      taken: portsOfOthers(uid),
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
