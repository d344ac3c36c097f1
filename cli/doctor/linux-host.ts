/** All readings of a Linux host. */
import { networkInterfaces } from "node:os";
import {
  linuxRoots,
  readGpus,
  readHostFirewall,
  readLinuxEphemeralPorts,
  readLinuxLinks,
  readLinuxListeners,
  readLinuxPowerSource,
  readLinuxPrograms,
  readLinuxSupervised,
  readOomKills,
  readPsi,
  readUnit,
} from "./linux.ts";
import { readFileLimit, type SystemReadings, type Tools } from "./system.ts";
import { known, takeAll } from "./take.ts";

export async function takeLinux(
  { run, limitMs, routed }: Tools,
  roots = linuxRoots,
): Promise<SystemReadings> {
  return takeAll(
    {
      powerSource: readLinuxPowerSource(roots),
      oomKills: readOomKills(roots),
      isPsiAvailable: readPsi(roots),
      links: routed.then((address) => readLinuxLinks(roots, address, addressesByLink())),
      service: readUnit(run),
      supervised: readLinuxSupervised(run),
      hostFirewall: readHostFirewall(run),
      gpus: readGpus(roots),
      fileLimit: readFileLimit(run),
      programs: readLinuxPrograms(roots),
      listeners: readLinuxListeners(roots),
      ephemeral: known(readLinuxEphemeralPorts(roots)),
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
