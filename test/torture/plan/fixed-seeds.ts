/** The seeds of every test run: together they draw every kind of fault, and some that outlast a Lease. */
export const FIXED_SEEDS = [
  { seed: 12, minutes: 2.5 },
  { seed: 578, minutes: 5 },
] as const;
