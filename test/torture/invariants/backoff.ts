/** How long the restarts of engines that faults have killed may rightly be held back. Pure. */
import type { Recording } from "../observe/recording.ts";
import { grouped, livesOf } from "./derive/engines.ts";

/** After the second crash: the first restart is not held back. */
const FIRST_MS = 1_000;
const MAX_MS = 5 * 60_000;
const RESET_MS = 10 * 60_000;
/** The first restarts are quicker than anything else that has to come right. */
const FREE_MS = 8_000;

/** The longest announced wait of any replica: 1 s after its second crash, doubled with each further one. */
export function allowedBackoffMs(recording: Recording): number {
  const now = recording.at(-1)?.at ?? 0;
  const waits = grouped(livesOf(recording, now), ({ uid }) => uid).map(([, lives]) => {
    const crashes = lives.filter(
      ({ wasKilled, paused, to }) => (wasKilled || paused.length > 0) && now - to < RESET_MS,
    ).length;
    return crashes < 2 ? 0 : Math.min(MAX_MS, FIRST_MS * 2 ** (crashes - 2));
  });
  const longest = Math.max(0, ...waits);
  return longest > FREE_MS ? longest : 0;
}
