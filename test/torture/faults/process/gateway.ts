/** What happens to the gateway: its Envoy or its decision service is killed, that freezes, its disk fills up, a key is revoked. */
import { setTimeout as pause } from "node:timers/promises";
import { complaint } from "../../../bed/load/ask.ts";
import { send } from "../../../bed/signal.ts";
import type { Recorder } from "../../observe/recorder.ts";
import type { Fault, FaultContext } from "../fault.ts";

const LOOK_MS = 50;
const RETURNS_WITHIN_MS = 30_000;
const ACCEPTED_WITHIN_MS = 5_000;
const REFUSED_WITHIN_MS = 10_000;
const SERVICE = "steady";

/** Its gateway starts another one. */
export const envoyKill: Fault = async (context) => {
  const pid = context.bed.gateway.envoyPid();
  if (pid === undefined) return { at: "skipped", why: "no Envoy runs" };
  note(context.recorder, "envoy", "ended");
  send(pid, "SIGKILL");
  return { at: "done", detail: `pid ${pid}`, heal: () => untilAnswers(context, "envoy", pid) };
};

export const gatewayKill: Fault = async (context) => {
  const { part } = context.bed.gateway;
  const pid = part.pid();
  note(context.recorder, "gateway", "ended");
  await part.kill("SIGKILL");
  return {
    at: "done",
    detail: `pid ${pid}`,
    heal: async () => {
      part.start();
      await untilAnswers(context, "gateway");
    },
  };
};

export const gatewayPause: Fault = async ({ bed, recorder }) => {
  const { part } = bed.gateway;
  note(recorder, "gateway", "paused");
  part.freeze();
  return {
    at: "done",
    detail: `pid ${part.pid()}`,
    heal: async () => {
      part.thaw();
      note(recorder, "gateway", "resumed");
    },
  };
};

export const gatewayDiskFull: Fault = async ({ bed, recorder }) => {
  bed.gateway.fillDisk();
  recorder.note({ type: "disk", host: "gateway", isFull: true });
  return {
    at: "done",
    detail: "",
    heal: async () => {
      bed.gateway.freeDisk();
      recorder.note({ type: "disk", host: "gateway", isFull: false });
    },
  };
};

/** A stream of the key is on its way, and ends as if nothing had happened. */
export const keyRevoke: Fault = async ({ bed, recorder }, { id }) => {
  const { gateway } = bed;
  const name = `revoked-${id}`;
  const key = await gateway.createKey(name).catch(() => undefined);
  if (key === undefined) return { at: "skipped", why: "the API server is away" };
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const list = () =>
    fetch(`${gateway.url}/v1/models`, { headers }).then(
      ({ status }) => status,
      () => 0,
    );
  if ((await waitFor(async () => (await list()) === 200, ACCEPTED_WITHIN_MS)) === undefined)
    return { at: "skipped", why: "the key was not accepted in time" };
  const startedAt = recorder.now();
  const body = { model: SERVICE, messages: [{ role: "user", content: "Hi" }], max_tokens: 200, stream: true };
  const stream = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
  }).catch(() => undefined);
  if (stream?.status !== 200) return { at: "skipped", why: `no stream: ${stream?.status}` };
  const read = stream.text().then(
    (text) => complaint(200, text, true),
    (error: unknown) => String(error),
  );
  const revoked = await gateway.revokeKey(name).then(
    () => true,
    () => false,
  );
  if (!revoked) return { at: "skipped", why: "the API server is away" };
  const refusedAfterMs = await waitFor(async () => (await list()) === 401, REFUSED_WITHIN_MS);
  const streamFailure = await read;
  recorder.note({ type: "revocation", service: SERVICE, startedAt, refusedAfterMs, streamFailure });
  return { at: "done", detail: name };
};

/** After how long; undefined if not in time. */
async function waitFor(check: () => Promise<boolean>, withinMs: number): Promise<number | undefined> {
  const began = performance.now();
  for (;;) {
    if (await check()) return Math.round(performance.now() - began);
    if (performance.now() - began > withinMs) return undefined;
    await pause(LOOK_MS);
  }
}

/** What does not answer in time has not started, and the invariants say so. */
async function untilAnswers(
  { bed, recorder }: FaultContext,
  part: "envoy" | "gateway",
  before?: number,
): Promise<void> {
  const isBack = async () => bed.gateway.envoyPid() !== before && (await bed.gateway.answers());
  if ((await waitFor(isBack, RETURNS_WITHIN_MS)) !== undefined) note(recorder, part, "started");
}

function note(
  recorder: Recorder,
  part: "envoy" | "gateway",
  change: "started" | "ended" | "paused" | "resumed",
): void {
  recorder.note({ type: "part", part, change });
}
