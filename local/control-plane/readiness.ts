/** Waits until the API server is ready. */
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import { tailOf } from "./process/log-tail.ts";
import type { Supervised } from "./process/supervise.ts";
import { type ApiAccess, callApi } from "./request.ts";
import { isDiskFull } from "./state/disk.ts";

const POLL_MS = 100;
/** After this many exits before it is ready, a part cannot recover without a change. */
const TERMINAL_CRASHES = 3;

export interface ReadinessInput {
  readonly url: string;
  readonly certificateFile: string;
  readonly token: string;
  readonly parts: readonly { readonly supervised: Supervised; readonly logFile: string }[];
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** Throws StateDiskFull, or ControlPlanePartFailed with the end of the log of the failed part. */
export async function waitUntilReady(input: ReadinessInput): Promise<ApiAccess> {
  const deadline = performance.now() + input.timeoutMs;
  const crashesBefore = new Map(input.parts.map((part) => [part, part.supervised.crashes()]));
  let last = "no answer yet";
  while (performance.now() < deadline) {
    input.signal?.throwIfAborted();
    const answer = await checkReadiness(input);
    if (typeof answer === "object") return answer;
    last = answer;
    for (const part of input.parts) {
      const crashes = part.supervised.crashes() - (crashesBefore.get(part) ?? 0);
      if (crashes >= TERMINAL_CRASHES) throw partFailed(part, `exited ${crashes} times while starting`);
    }
    await pause(POLL_MS);
  }
  const slowest = input.parts.at(-1);
  const seconds = Math.round(input.timeoutMs / 1000);
  if (slowest === undefined)
    throw new MetalbridgeError("ControlPlanePartFailed", `not ready after ${seconds} s: ${last}`);
  throw partFailed(slowest, `not ready after ${seconds} s: ${last}`);
}

async function checkReadiness(input: ReadinessInput): Promise<ApiAccess | string> {
  try {
    const certificateAuthority = readFileSync(input.certificateFile, "utf8");
    const access = { url: input.url, certificateAuthority, token: input.token };
    const reply = await callApi(access, { method: "GET", path: "/readyz", timeoutMs: 2_000 });
    return reply.status === 200 ? access : `/readyz answered ${reply.status}`;
  } catch (error) {
    return errorMessage(error);
  }
}

function partFailed(part: ReadinessInput["parts"][number], why: string): MetalbridgeError {
  const { name } = part.supervised;
  if (isDiskFull(part.logFile))
    return new MetalbridgeError("StateDiskFull", `${name} exited, and the disk of ${part.logFile} is full`);
  const tail = tailOf(part.logFile, 1_500);
  return new MetalbridgeError("ControlPlanePartFailed", `${name} ${why}`, {
    summary: `its log (${part.logFile}) ends with:\n${tail}`,
  });
}
