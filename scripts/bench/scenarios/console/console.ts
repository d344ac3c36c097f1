/** The console: size and start of its first page, its largest table, a long log, its streams. */
import { hasBrowser } from "../../../../test/bed/console/browser.ts";
import type { ScenarioResult } from "../../beds/measurement.ts";
import { log } from "../../beds/plane.ts";
import { measureFirstLoad, measureFirstPageSize } from "./first-page.ts";
import { measureLogs } from "./logs.ts";
import { openConsoleRig } from "./rig.ts";
import { measureConsoleStreams } from "./streams.ts";
import { measureTable } from "./table.ts";

/** `hosts`, and five times as many services. */
export async function measureConsole({
  hosts,
}: {
  readonly hosts: number;
}): Promise<readonly ScenarioResult[]> {
  const size = await measureFirstPageSize();
  if (!hasBrowser) {
    log.warn({}, "no Chromium: the pages of the console are not measured");
    return [size];
  }
  await using rig = await openConsoleRig(hosts);
  return [
    size,
    ...(await measureFirstLoad(rig)),
    ...(await measureLogs(rig)),
    ...(await measureConsoleStreams(rig)),
    ...(await measureTable(rig)),
  ];
}
