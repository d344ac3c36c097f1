/** A log that drops everything, for tests that look at behaviour and not at lines. */
import type { Log } from "../../src/util/ports.ts";

const drop = () => {};

export const quietLog: Log = { debug: drop, info: drop, warn: drop, error: drop, child: () => quietLog };
