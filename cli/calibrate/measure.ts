/** Starts the real llama-server on a model just long enough to read which buffers it makes. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { ClaimSettings } from "../../src/engines/llamacpp/claim/claim-settings.ts";
import { type PrintedBuffers, parsePrintedBuffers } from "./printed.ts";

const START_MS = 60_000;
const KEPT_CHARACTERS = 4 << 20;
const SAID_CHARACTERS = 500;

/** The engine never gets to serve: it is ended as soon as it has made its buffers. */
export async function measureBuffers(
  program: string,
  model: string,
  settings: ClaimSettings,
  { signal, more = [] }: { readonly signal?: AbortSignal; readonly more?: readonly string[] } = {},
): Promise<PrintedBuffers> {
  const child = spawn(program, [...argumentsFor(model, settings), ...more], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { GGML_NO_BACKTRACE: "1" },
  });
  const deadline = AbortSignal.timeout(START_MS);
  const stop = () => child.kill("SIGKILL");
  const ended = once(child, "close").catch((cause: unknown) => cause);
  for (const one of [deadline, ...(signal === undefined ? [] : [signal])]) {
    if (one.aborted) stop();
    one.addEventListener("abort", stop, { once: true });
  }
  try {
    const log = await logUntil(child, /llama_server: model loaded|listening on http/);
    const printed = parsePrintedBuffers(log);
    if (printed !== undefined) return printed;
    const said = log.trim().slice(-SAID_CHARACTERS);
    throw new MetalbridgeError("CalibrationFailed", `${program} made no buffers that could be read: ${said}`);
  } finally {
    stop();
    await ended;
    signal?.removeEventListener("abort", stop);
  }
}

/** What was said until a line came, or until the end. */
async function logUntil(child: ChildProcess, line: RegExp): Promise<string> {
  let log = "";
  if (child.stderr === null) return log;
  try {
    for await (const chunk of child.stderr) {
      log = (log + String(chunk)).slice(-KEPT_CHARACTERS);
      if (line.test(log)) return log;
    }
  } catch (cause) {
    throw new MetalbridgeError("CalibrationFailed", "the engine's output cannot be read", undefined, {
      cause,
    });
  }
  return log;
}

function argumentsFor(model: string, settings: ClaimSettings): string[] {
  const { contextSize, parallelSlots, kvUnified, flashAttention = true, batchSize, uBatchSize } = settings;
  const values: Readonly<Record<string, string | number | undefined>> = {
    "-m": model,
    "--host": "127.0.0.1",
    // Any free port; it is never asked for anything.
    "--port": 0,
    "-c": contextSize,
    "-np": parallelSlots,
    "-fa": flashAttention ? "on" : "off",
    "-b": batchSize,
    "-ub": uBatchSize,
    "-ctk": settings.cacheTypeCustomK ?? settings.cacheTypeK,
    "-ctv": settings.cacheTypeCustomV ?? settings.cacheTypeV,
    "-lv": 4,
    "-fit": "off",
    "--cache-ram": 0,
  };
  const given = Object.entries(values).flatMap(([flag, value]) =>
    value === undefined ? [] : [flag, String(value)],
  );
  return [...given, kvUnified ? "-kvu" : "-no-kvu", "--no-warmup"];
}
