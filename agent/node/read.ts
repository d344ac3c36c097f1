/** Reads the hardware, programs and models of this machine. */

import { boundedReport, type NodeReport } from "../../src/api/node-report.ts";
import { waitMs } from "../../src/kube/wait.ts";
import type { RunCommand } from "../../src/util/command.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { createHardwareReader } from "../host/linux/hardware.ts";
import type { HardwareRoots } from "../host/linux/roots.ts";
import { type InstalledPlaces, type InstalledSoftware, readInstalled } from "../inventory/installed.ts";

export interface NodeReader {
  readonly read: () => Promise<NodeReport>;
  /** Called when devices were added or removed, which are then read again. */
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

/** The report does not wait longer for folders: a network volume that hangs never answers. */
const TIMEOUT_MS = 10_000;
const NOTHING: InstalledSoftware = { runtimes: [], models: [] };

/** Reading never throws, in any state of the machine. */
export function createNodeReader(options: NodeReaderOptions): NodeReader {
  const hardware = createHardwareReader(options.roots, options.run);
  const { installed: places } = options;
  const readSoftware =
    places === undefined ? async () => NOTHING : createSoftwareReader({ ...options, installed: places });
  return {
    forget: hardware.forget,
    read: async () => {
      const [{ leftOut, ...found }, installed] = await Promise.all([hardware.read(), readSoftware()]);
      const { runtimes, models } = installed ?? NOTHING;
      const notes = installed === undefined ? [...leftOut, "models: their folders do not answer"] : leftOut;
      return boundedReport({ ...found, leftOut: notes, runtimes: [...runtimes], models: [...models] });
    },
  };
}

/** While folders are slow, returns the last result; undefined if they have never answered. */
function createSoftwareReader({
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
    isSlow = clock.monotonicMs() - startedMs >= TIMEOUT_MS;
    reading = undefined;
  };
  return async () => {
    reading ??= start();
    const current = reading;
    if (isSlow) return last;
    const stop = new AbortController();
    await Promise.race([current, waitMs(clock, TIMEOUT_MS, stop.signal)]);
    stop.abort();
    if (current === reading && !isSlow) {
      isSlow = true;
      log?.warn({}, "folders of models do not answer; reporting the models that were found last");
    }
    return last;
  };
}
