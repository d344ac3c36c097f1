/** `npm run simulate`: a day of a large fleet through the real planner, its rules checked after every change; prints a report. */
import { parseArgs } from "node:util";
import { simulateDay } from "./simulate/day.ts";
import { DEFAULTS, type SimulationOptions } from "./simulate/options.ts";
import { renderSimulationReport } from "./simulate/report.ts";

const HELP = `npm run simulate -- [--hosts N] [--services N] [--hours N] [--seed N] [--load PARTS]

  --hosts     hosts of the fleet (${DEFAULTS.hosts})
  --services  services at a time, on average (${DEFAULTS.services})
  --hours     how long (${DEFAULTS.hours})
  --seed      the same seed gives the same day (${DEFAULTS.seed})
  --load      what they ask for together, in parts of what the fleet has (${DEFAULTS.load})
`;

/** CPU time of this thread, which other programs on the machine do not change. */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage?.() ?? process.cpuUsage();
  return (user + system) / 1000;
}

function readOptions(): SimulationOptions | undefined {
  const option = { type: "string" } as const;
  const { values } = parseArgs({
    options: {
      hosts: option,
      services: option,
      hours: option,
      seed: option,
      load: option,
      help: { type: "boolean" },
    },
  });
  if (values.help === true) return undefined;
  const number = (name: keyof SimulationOptions) => {
    const value = values[name] === undefined ? DEFAULTS[name] : Number(values[name]);
    if (!Number.isFinite(value) || value < 0)
      throw new Error(`--${name} has to be a number, and not ${values[name]}`);
    return value;
  };
  return {
    hosts: Math.max(1, Math.round(number("hosts"))),
    services: Math.round(number("services")),
    hours: number("hours"),
    seed: Math.round(number("seed")),
    load: number("load"),
  };
}

try {
  const options = readOptions();
  if (options === undefined) console.log(HELP);
  else
    console.log(
      renderSimulationReport(options, simulateDay(options, { elapsedMs: () => performance.now(), cpuMs })),
    );
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
