/** Decides whether a download may take more disk: the reserve, the quota, and what other downloads still need. */

import { MetalbridgeError } from "../../src/api/errors.ts";
import { diskFull, formatBytes, type ReadSpace } from "./disk.ts";

export interface Admission {
  /** Throws DiskFull when `neededBytes` more do not fit, after unused models were removed. */
  readonly admit: (key: string, what: string, neededBytes: number) => Promise<void>;
  readonly done: (key: string) => void;
}

export interface AdmissionOptions {
  readonly readSpace: ReadSpace;
  readonly reserveBytes: number;
  readonly quotaBytes: () => number | undefined;
  /** Bytes of all content in the store, parts included. */
  readonly usedBytes: () => Promise<number>;
  /** Removes unused models worth at least so many bytes if it can. */
  readonly makeRoom: (bytes: number) => Promise<void>;
}

export function createAdmission(options: AdmissionOptions): Admission {
  const needs = new Map<string, number>();

  const shortage = async (key: string, neededBytes: number): Promise<Shortage> => {
    let others = 0;
    for (const [other, bytes] of needs) if (other !== key) others += bytes;
    const { freeBytes } = await options.readSpace(neededBytes + others + options.reserveBytes);
    const quota = options.quotaBytes();
    const overQuota = quota === undefined ? 0 : (await options.usedBytes()) + neededBytes + others - quota;
    return { freeBytes, onDisk: neededBytes + others + options.reserveBytes - freeBytes, overQuota, quota };
  };

  return {
    admit: async (key, what, neededBytes) => {
      let short = await shortage(key, neededBytes);
      if (short.onDisk > 0 || short.overQuota > 0) {
        await options.makeRoom(Math.max(short.onDisk, short.overQuota));
        short = await shortage(key, neededBytes);
      }
      if (short.overQuota > 0 && short.quota !== undefined) throw overQuota(what, neededBytes, short.quota);
      if (short.onDisk > 0) {
        const { freeBytes } = short;
        throw diskFull({ what, neededBytes, freeBytes, reserveBytes: options.reserveBytes });
      }
      needs.set(key, neededBytes);
    },
    done: (key) => needs.delete(key),
  };
}

interface Shortage {
  readonly freeBytes: number;
  readonly onDisk: number;
  readonly overQuota: number;
  readonly quota: number | undefined;
}

function overQuota(what: string, neededBytes: number, quota: number): MetalbridgeError {
  const message = `${what} needs ${formatBytes(neededBytes)} more, which exceeds the store's quota of ${formatBytes(quota)}`;
  return new MetalbridgeError("DiskFull", message);
}
