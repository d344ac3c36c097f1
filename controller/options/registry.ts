/** The options of the controller: each is a folder here and a line in this table, and goes by deleting both. */
import type { OptionPart, ProcessPorts } from "../frame/option.ts";
import { backends } from "./backend/option.ts";
import { benchmarks } from "./benchmark/option.ts";
import { externalMetrics } from "./external-metrics/option.ts";
import { idle } from "./idle/idle.ts";
import { labels } from "./labels/option.ts";
import { liveEviction } from "./live-eviction/option.ts";
import { preflight } from "./preflight/option.ts";
import { transport } from "./transport/option.ts";
import { tunnel } from "./tunnel/option.ts";

/** In the order in which they start, and in which their settings are documented. */
const OPTIONS = {
  preflight,
  tunnel,
  transport,
  liveEviction,
  labels,
  benchmarks,
  externalMetrics,
  backends,
  idle,
};

export type OptionName = keyof typeof OPTIONS;
type Each = (typeof OPTIONS)[OptionName];
type All<Union> = (Union extends unknown ? (each: Union) => void : never) extends (all: infer I) => void
  ? I
  : never;

const all: readonly Each[] = Object.values(OPTIONS);

/** The settings of all options. */
export const OPTION_SHAPE = Object.assign({}, ...all.map(({ shape }) => shape)) as All<
  NonNullable<Each["shape"]>
>;

/** Settings that can only be on if machines are scored. */
export const OPTIONS_NEED_FITNESS: readonly string[] = all.flatMap(({ needsFitness = [] }) => needsFitness);

/** `onListening` is called with the port of an option's listener once it listens. */
export function startOptions(
  config: All<Parameters<Each["start"]>[0]>,
  ports: Omit<ProcessPorts, "onListening">,
  onListening: (option: OptionName, port: number) => void = () => {},
): Promise<readonly OptionPart[]> {
  const started = Object.entries(OPTIONS).map(([name, option]) =>
    option.start(config, { ...ports, onListening: (port) => onListening(name as OptionName, port) }),
  );
  return Promise.all(started);
}
