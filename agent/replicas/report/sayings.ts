/** Findings that come again with every try: said when they are new or different, and once when they are over. */
import type { Log } from "../../../src/ports.ts";

export interface Sayings {
  /** `why` decides whether it is another finding than the last one about the same. */
  readonly found: (about: string, why: string, data: object) => void;
  readonly over: (about: string) => void;
}

/** One replica's, with its own log. */
export function createSayings(log: Log): Sayings {
  const said = new Map<string, string>();
  return {
    found: (about, why, more) => {
      if (said.get(about) === why) return;
      said.set(about, why);
      log.warn(more, `${about} not written; trying again`);
    },
    over: (about) => {
      if (said.delete(about)) log.info({}, `${about} written again`);
    },
  };
}
