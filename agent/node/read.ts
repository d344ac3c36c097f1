/** One reading of this machine: hardware, and which programs and models it has. */

import { boundedReport, type NodeReport } from "../../src/api/node-report.ts";
import { waitMs } from "../../src/kube/wait.ts";
import type { RunCommand } from "../../src/util/command.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { createHardwareReader } from "../host/linux/hardware.ts";
import type { HardwareRoots } from "../host/linux/roots.ts";
import { type InstalledPlaces, type InstalledSoftware, readInstalled } from "../inventory/installed.ts";

export interface NodeReader {
  readonly read: () => Promise<NodeReport>;
  /** Devices came or went: they are read again. */
  readonly forget: () => void;
}

export interface NodeReaderOptions {
  readonly roots: HardwareRoots;
  /** Undefined: programs and models are not read. */
  readonly installed: InstalledPlaces | undefined;
  readonly run: RunCommand;
  readonly clock: Clock;
  readonly log?: Log | undefined;
}

/** Folders that have not answered by then are not waited for: one on a network volume that hangs never does. */
const PATIENCE_MS = 10_000;
const NOTHING: InstalledSoftware = { runtimes: [], models: [] };

/** Throws for nothing that the machine has, lacks or says. */
export function createNodeReader(options: NodeReaderOptions): NodeReader {
  const hardware = createHardwareReader(options.roots, options.run);
  const { installed: places } = options;
  const readSoon =
    places === undefined ? async () => NOTHING : installedSoon({ ...options, installed: places });
  return {
    forget: hardware.forget,
    read: async () => {
      const [{ leftOut, ...found }, installed] = await Promise.all([hardware.read(), readSoon()]);
      const { runtimes, models } = installed ?? NOTHING;
      const notes = installed === undefined ? [...leftOut, "models: their folders do not answer"] : leftOut;
      return boundedReport({ ...found, leftOut: notes, runtimes: [...runtimes], models: [...models] });
    },
  };
}

/** What was found last, while folders are slow; undefined where they have never answered. */
function installedSoon({
  installed,
  clock,
  log,
}: NodeReaderOptions & { readonly installed: InstalledPlaces }): () => Promise<
  InstalledSoftware | undefined
> {
  let last: InstalledSoftware | undefined;
  let reading: Promise<void> | undefined;
  let isSlow = false;
  const start = async (): Promise<void> => {
    const startedMs = clock.monotonicMs();
    last = await readInstalled(installed);
    isSlow = clock.monotonicMs() - startedMs >= PATIENCE_MS;
    reading = undefined;
  };
  return async () => {
    reading ??= start();
    const mine = reading;
    if (isSlow) return last;
    const stop = new AbortController();
    await Promise.race([mine, waitMs(clock, PATIENCE_MS, stop.signal)]);
    stop.abort();
    if (mine === reading && !isSlow) {
      isSlow = true;
      log?.warn({}, "folders of models do not answer; what was found in them last is reported");
    }
    return last;
  };
}
