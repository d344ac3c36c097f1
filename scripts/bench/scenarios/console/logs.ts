/** The tab of a service whose log has 100,000 lines: as many as the page keeps. */
import { CONSOLE_PATH, type LogLine } from "../../../../src/console/protocol.ts";
import { measured, type ScenarioResult } from "../../beds/measurement.ts";
import type { ConsoleRig } from "./rig.ts";
import { heapMb, tabMb } from "./table.ts";

const LINES = 100_000;

/** The lines are put into the browser: services of this rig have no engine. */
export async function measureLogs(rig: ConsoleRig): Promise<readonly ScenarioResult[]> {
  const [service] = rig.fleet.services;
  if (service === undefined) throw new Error("the fleet has no service");
  await using reader = await rig.open();
  const { page, context } = reader;
  await page.route(`**${CONSOLE_PATH}/logs*`, (route) =>
    route.fulfill({ contentType: "application/x-ndjson", body: logOf(LINES) }),
  );
  await reader.open(`/services/${service.namespace}/${service.name}?tab=logs`);
  await page
    .locator(".logs .number")
    .filter({ hasText: LINES.toLocaleString("en-US") })
    .first()
    .waitFor();
  await page.locator(".log-line", { hasText: `task ${LINES - 1} |` }).waitFor();
  const session = await context.newCDPSession(page);
  await session.send("Performance.enable");
  const heap = await heapMb(session);
  const tab = await tabMb(await rig.browser.newBrowserCDPSession());
  await page.getByRole("log").press("Home");
  await page.locator(".log-line", { hasText: "task 0 |" }).first().waitFor();
  return [
    measured(`console: tab with ${LINES} log lines, anonymous memory`, "MB", [tab], { max: 150 }),
    measured(`console: tab with ${LINES} log lines, heap`, "MB", [heap]),
  ];
}

/** As llama-server logs a request. */
function logOf(count: number): string {
  return Array.from({ length: count }, (_, index) => {
    const line = `slot print_timing: id ${index % 4} | task ${index} | prompt eval time = 812.33 ms / 512 tokens ( 1.59 ms per token )`;
    return `${JSON.stringify({ line, replica: "r-0-0" } satisfies LogLine)}\n`;
  }).join("");
}
