/** Takes all readings of a Linux host. */
import { networkInterfaces } from "node:os";
import {
  linuxRoots,
  readHostFirewall,
  readLinuxEphemeralPorts,
  readLinuxGpuVendors,
  readLinuxLinks,
  readLinuxListeners,
  readLinuxPowerSource,
  readLinuxPrograms,
  readLinuxSupervised,
  readOomKills,
  readPsi,
  readUnit,
} from "./linux.ts";
import { knownReading, readAll } from "./read-all.ts";
import { readFileLimit, type SystemReadings, type Tools } from "./system.ts";

export async function readLinux(
  { run, limitMs, routed }: Tools,
  roots = linuxRoots,
): Promise<SystemReadings> {
  return readAll(
    {
      powerSource: readLinuxPowerSource(roots),
      oomKills: readOomKills(roots),
      isPsiAvailable: readPsi(roots),
      links: routed.then((address) => readLinuxLinks(roots, address, addressesByLink())),
      service: readUnit(run),
      supervised: readLinuxSupervised(run),
      hostFirewall: readHostFirewall(run),
      gpus: readLinuxGpuVendors(roots),
      fileLimit: readFileLimit(run),
      programs: readLinuxPrograms(roots),
      listeners: readLinuxListeners(roots),
      ephemeral: knownReading(readLinuxEphemeralPorts(roots)),
    },
    limitMs,
  );
}

function addressesByLink(): ReadonlyMap<string, readonly string[]> {
  return new Map(
    Object.entries(networkInterfaces()).map(([name, found]) => [
      name,
      (found ?? []).map(({ address }) => address),
    ]),
  );
}
