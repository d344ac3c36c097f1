/** One reading of this machine: hardware, and which programs and models it has. */
import type { RunCommand } from "../../src/macos/command.ts";
import { boundedReport, type NodeReport } from "../../src/telemetry/node-report.ts";
import { createHardwareReader, type LinuxRoots } from "../host/linux/hardware.ts";
import { type InstalledPlaces, readInstalled } from "../installed/installed.ts";

export interface NodeReader {
  readonly read: () => Promise<NodeReport>;
  /** Devices came or went: they are read again. */
  readonly forget: () => void;
}

export interface NodeReaderOptions {
  readonly roots: LinuxRoots;
  readonly installed: InstalledPlaces;
  readonly run: RunCommand;
}

/** Throws for nothing that the machine has, lacks or says. */
export function createNodeReader({ roots, installed, run }: NodeReaderOptions): NodeReader {
  const hardware = createHardwareReader(roots, run);
  return {
    forget: hardware.forget,
    read: async () => {
      const [found, { runtimes, models }] = await Promise.all([hardware.read(), readInstalled(installed)]);
      return boundedReport({ ...found, runtimes: [...runtimes], models: [...models] });
    },
  };
}
