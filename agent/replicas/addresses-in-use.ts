/** What this host's engines listen on: from the record each was started with, known after a restart of the agent too. */
import type { EngineProcess, EngineProcesses } from "../process/engine-process.ts";
import { readEngineFile } from "./files/engine-record.ts";

export interface NotedProcesses extends EngineProcesses {
  /** Once for each engine that lives. No I/O: every pass asks. */
  readonly addressesInUse: () => readonly string[];
}

/** The same processes, with the address of each kept beside it. */
export function noteAddresses(processes: EngineProcesses): NotedProcesses {
  const noted = new Map<string, { readonly engine: EngineProcess; readonly address: string }>();
  const note = (engine: EngineProcess, address: string | undefined): void => {
    if (address === undefined) noted.delete(engine.dir);
    else noted.set(engine.dir, { engine, address });
  };
  return {
    startEngine: async (dir, command, onChange) => {
      const engine = await processes.startEngine(dir, command, onChange);
      const { record } = command;
      note(engine, "address" in record ? String(record.address) : undefined);
      return engine;
    },
    adoptEngine: async (dir, onChange) => {
      const engine = await processes.adoptEngine(dir, onChange);
      if (engine !== undefined) note(engine, recordedAddress(dir));
      return engine;
    },
    addressesInUse: () => {
      for (const [dir, { engine }] of noted) if (!isAlive(engine)) noted.delete(dir);
      return [...noted.values()].map(({ address }) => address);
    },
  };
}

function isAlive(engine: EngineProcess): boolean {
  const { at } = engine.state();
  return at === "starting" || at === "running";
}

/** An engine without a readable record is replaced anyway, on the host's address. */
function recordedAddress(dir: string): string | undefined {
  try {
    const file = readEngineFile(dir);
    return file === undefined || file === "unreadable" ? undefined : file.address;
  } catch {
    return undefined;
  }
}
