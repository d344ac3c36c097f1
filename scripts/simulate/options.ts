/** Options of a simulation. */

export interface SimulationOptions {
  readonly hosts: number;
  /** Services at a time, on average. */
  readonly services: number;
  readonly hours: number;
  readonly seed: number;
  /** What they ask for together, in parts of what the fleet has. */
  readonly load: number;
}

export const DEFAULTS: SimulationOptions = { hosts: 1000, services: 5000, hours: 24, seed: 1, load: 1 };

/** As the controller judges: after this time without a Lease renewal a host is unreachable, then lost. */
export const SILENT_AFTER_MS = 40_000;
export const LOST_AFTER_MS = 300_000;
