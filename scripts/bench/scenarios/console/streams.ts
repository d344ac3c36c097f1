/** Twenty consoles: what their streams add to the server's memory, and what computing for them costs. */
import { setTimeout as pause } from "node:timers/promises";
import { CONSOLE_HEADER, CONSOLE_PATH, type Topic } from "../../../../src/console/protocol.ts";
import { measured, type ScenarioResult } from "../../beds/measurement.ts";
import { cpuSeconds, megabytes } from "../idle.ts";
import type { ConsoleRig } from "./rig.ts";

const CONSOLES = 20;
const TOPICS: readonly Topic[] = ["farm", "hosts", "models", "queues", "services"];
const CHANGES_PER_SECOND = 200;
const WATCHED_MS = 20_000;
const SAMPLE_MS = 250;
/** The server collects what earlier streams left behind. */
const SETTLE_MS = 20_000;

/** Each with a ServiceAccount of its own: nothing is shared but the questions. */
export async function measureConsoleStreams(rig: ConsoleRig): Promise<readonly ScenarioResult[]> {
  const { pid } = rig.server;
  const cookies: string[] = [];
  for (let index = 0; index < CONSOLES; index += 1)
    cookies.push(await signIn(rig.url, await rig.token(`console-${index}`)));
  const changes = rig.startChanges(CHANGES_PER_SECOND);
  const ending = new AbortController();
  const open = (cookie: string) => void follow(rig.url, cookie, ending.signal).catch(() => {});
  const cpuOver = async () => {
    const before = cpuSeconds(pid);
    await pause(WATCHED_MS);
    return cpuSeconds(pid) - before;
  };
  try {
    await pause(SETTLE_MS);
    const none = await cpuOver();
    const beforeMb = megabytes(pid, "VmRSS");
    open(cookies[0] ?? "");
    await pause(SETTLE_MS / 4);
    const one = await cpuOver();
    for (const cookie of cookies.slice(1)) open(cookie);
    let peakMb = beforeMb;
    for (const endMs = performance.now() + WATCHED_MS; performance.now() < endMs; await pause(SAMPLE_MS))
      peakMb = Math.max(peakMb, megabytes(pid, "VmRSS"));
    const all = await cpuOver();
    const title = `console: ${CONSOLES} consoles with ${TOPICS.length} topics each, ${CHANGES_PER_SECOND} changes/s`;
    return [
      measured(`${title}: memory added to the server`, "MB", [peakMb - beforeMb], { max: 80 }),
      measured(`${title}: CPU that they add, to that of one console`, "ratio", [(all - none) / (one - none)]),
    ];
  } finally {
    ending.abort();
    changes.stop();
  }
}

async function signIn(url: string, token: string): Promise<string> {
  const response = await fetch(`${url}${CONSOLE_PATH}/session`, {
    method: "POST",
    headers: { [CONSOLE_HEADER]: "1", origin: url, "content-type": "application/json" },
    body: JSON.stringify({ token }),
  });
  if (!response.ok) throw new Error(`the sign-in is refused: ${response.status} ${await response.text()}`);
  return response.headers
    .getSetCookie()
    .map((cookie) => cookie.split(";")[0])
    .join("; ");
}

/** Reads as fast as it comes, and keeps nothing. */
async function follow(url: string, cookie: string, signal: AbortSignal): Promise<void> {
  const response = await fetch(`${url}${CONSOLE_PATH}/stream?topics=${TOPICS.join(",")}`, {
    headers: { [CONSOLE_HEADER]: "1", cookie },
    signal,
  });
  if (!response.ok || response.body === null) throw new Error(`the stream is refused: ${response.status}`);
  for await (const _ of response.body) signal.throwIfAborted();
}
