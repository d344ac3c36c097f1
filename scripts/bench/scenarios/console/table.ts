/** The table of services: long frames while it is scrolled and changed, and the memory of its page over time. */
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import type { CDPSession } from "playwright-core";
import type { ConsolePage } from "../../../../test/bed/console/browser.ts";
import { measured, type ScenarioResult } from "../../beds/measurement.ts";
import type { ConsoleRig } from "./rig.ts";

const CHANGES_PER_SECOND = 200;
const SCROLL_MS = 15_000;
const WHEEL_MS = 40;
const WHEEL_PX = 700;
/** By definition of `long-animation-frame`. */
const LONG_MS = 50;
/** Until the first batches are compiled and all caches are full. */
const SETTLE_MS = 30_000;
const MINUTES = 5;

const OBSERVE = `{
  window.benchFrames = [];
  const note = (list) => { for (const { duration } of list.getEntries()) window.benchFrames.push(duration); };
  new PerformanceObserver(note).observe({ type: "long-animation-frame" });
}`;

export async function measureTable(rig: ConsoleRig): Promise<readonly ScenarioResult[]> {
  await using reader = await rig.open(OBSERVE);
  await reader.open("/services");
  await reader.page.locator(".table-row").first().waitFor();
  const title = `console, ${rig.fleet.hosts.length} hosts × ${rig.fleet.services.length} services`;
  await pause(SETTLE_MS);
  const quiet = await framesWhile(reader, () => scroll(reader));
  const changes = rig.startChanges(CHANGES_PER_SECOND);
  await pause(SETTLE_MS);
  const before = { count: changes.count(), ms: performance.now() };
  const still = await framesWhile(reader, () => pause(SCROLL_MS));
  const scrolled = await framesWhile(reader, () => scroll(reader));
  const rate = ((changes.count() - before.count) / (performance.now() - before.ms)) * 1_000;
  const memory = await measureMemory(rig, reader, title);
  changes.stop();
  const at = `at ${CHANGES_PER_SECOND} changes/s`;
  const frames = (what: string, samples: readonly number[]) =>
    measured(`${title}: frames over ${LONG_MS} ms, ${what}`, "ms", samples, { max: LONG_MS });
  return [
    frames("while scrolling", quiet),
    frames(at, still),
    frames(`while scrolling ${at}`, scrolled),
    measured(`${title}: changes taken by the server`, "requests/s", [rate]),
    ...memory,
  ];
}

/** Long frames of that time; a single 0 if there was none. */
async function framesWhile({ page }: ConsolePage, work: () => Promise<void>): Promise<readonly number[]> {
  await page.evaluate("window.benchFrames.length = 0");
  await work();
  const frames = await page.evaluate<readonly number[]>("window.benchFrames");
  return frames.length === 0 ? [0] : frames;
}

/** Down and up again, as with a wheel. */
async function scroll({ page }: ConsolePage): Promise<void> {
  await page.mouse.move(700, 500);
  for (const endMs = performance.now() + SCROLL_MS; performance.now() < endMs; ) {
    const isDown = Math.floor(performance.now() / 3_000) % 2 === 0;
    await page.mouse.wheel(0, isDown ? WHEEL_PX : -WHEEL_PX);
    await pause(WHEEL_MS);
  }
}

/** while the changes continue: as many in five minutes as an hour brings at a twelfth of the rate. */
async function measureMemory(
  { browser }: ConsoleRig,
  { page, context }: ConsolePage,
  title: string,
): Promise<readonly ScenarioResult[]> {
  const session = await context.newCDPSession(page);
  await session.send("Performance.enable");
  const system = await browser.newBrowserCDPSession();
  const heaps = [await heapMb(session)];
  const tabs = [await tabMb(system)];
  for (let minute = 0; minute < MINUTES; minute += 1) {
    await pause(60_000);
    heaps.push(await heapMb(session));
    tabs.push(await tabMb(system));
  }
  const growth = (samples: readonly number[]) => (samples.at(-1) ?? 0) - (samples[0] ?? 0);
  const over = `over ${MINUTES} min at ${CHANGES_PER_SECOND} changes/s`;
  return [
    measured(`${title}: growth of the page's heap ${over}`, "MB", [growth(heaps)], { max: 5 }),
    measured(`${title}: the page's heap ${over}`, "MB", heaps),
    measured(`${title}: anonymous memory of page and worker ${over}`, "MB", tabs),
  ];
}

/** What is in use after a collection. */
export async function heapMb(session: CDPSession): Promise<number> {
  await session.send("HeapProfiler.collectGarbage");
  const { metrics } = await session.send("Performance.getMetrics");
  return (metrics.find(({ name }) => name === "JSHeapUsedSize")?.value ?? Number.NaN) / 1e6;
}

/**
 * Anonymous memory of the process that has the page and the worker of the stream: the largest renderer. Chromium has others,
 * for its own interface and in reserve for the next page.
 */
export async function tabMb(system: CDPSession): Promise<number> {
  const { processInfo } = await system.send("SystemInfo.getProcessInfo");
  return Math.max(...processInfo.filter(({ type }) => type === "renderer").map(({ id }) => anonymousMb(id)));
}

function anonymousMb(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return (Number(/^RssAnon:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1_024) / 1e6;
}
