/** GET /console/logs: the logs of a service's replicas as one stream of lines, filtered here. */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { StringDecoder } from "node:string_decoder";
import { z } from "zod";
import { describeError, MetalbridgeError } from "../../../src/api/errors.ts";
import { CONSOLE_PATH, type LogLine } from "../../../src/console/protocol.ts";
import { errorMessage } from "../../../src/util/error-message.ts";
import type { Clock } from "../../../src/util/ports.ts";
import { terminalText } from "../../../src/util/terminal-text.ts";
import { parseBody } from "../body.ts";
import type { MountRoutes, Reader } from "../reader.ts";
import { createLineFilter, type LineFilter } from "./filter.ts";
import { findLogSources, type LogSource, type ReadLocalLog } from "./sources.ts";

const MAX_TAIL = 100_000;
/** The rest of a longer line is dropped. */
const MAX_LINE = 16_384;
/** Each may use a time of the server's only core for its filter. */
const MAX_LOGS_OF_READER = 4;
const BEAT_MS = 15_000;
const ESCAPE = "\u001b";
const COLOR = new RegExp(`${ESCAPE}\\[[0-9;]*m`, "g");

const name = z
  .string()
  .max(253)
  .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);
const querySchema = z.strictObject({
  namespace: name,
  service: name,
  replica: name.optional(),
  filter: z.string().default(""),
  tail: z.coerce.number().int().min(0).max(MAX_TAIL).default(1_000),
  follow: z
    .enum(["true", "false"])
    .default("false")
    .transform((text) => text === "true"),
});

export interface LogsOptions {
  readonly clock: Clock;
  readonly readLocalLog?: ReadLocalLog | undefined;
}

export function createLogs({ clock, readLocalLog }: LogsOptions): MountRoutes {
  const openOf = new Map<string, number>();
  return (scope, { requireReader }) => {
    const options = { config: { calledBy: "call" }, exposeHeadRoute: false } as const;
    scope.get(`${CONSOLE_PATH}/logs`, options, async (request, reply) => {
      const { filter, ...wanted } = parseBody(querySchema, request.query);
      const accepts = createLineFilter(filter, clock);
      const left = new AbortController();
      reply.raw.once("close", () => left.abort());
      const reader = await requireReader(request);
      if (!left.signal.aborted) takePlace(openOf, reader, left.signal);
      const sources = await findLogSources(reader, wanted, readLocalLog);
      const opened = await openAll(sources, left.signal);
      if (left.signal.aborted) return reply.hijack();
      reply.hijack();
      reply.raw.writeHead(200, {
        "content-type": "application/x-ndjson; charset=utf-8",
        "cache-control": "no-store, no-transform",
        "x-accel-buffering": "no",
        "x-content-type-options": "nosniff",
      });
      reply.raw.flushHeaders();
      const stopBeats = startBeats(reply.raw, clock);
      await Promise.all(opened.map((one) => send(reply.raw, one, accepts, left.signal)));
      stopBeats();
      reply.raw.end();
      return reply;
    });
  };
}

/** Until the response ends. Throws ConsoleStreamsFull. */
function takePlace(openOf: Map<string, number>, { id, user }: Reader, signal: AbortSignal): void {
  const open = openOf.get(id) ?? 0;
  if (open >= MAX_LOGS_OF_READER)
    throw new MetalbridgeError("ConsoleStreamsFull", `${user} has ${open} open logs`);
  openOf.set(id, open + 1);
  signal.addEventListener("abort", () => {
    const others = (openOf.get(id) ?? 1) - 1;
    if (others === 0) openOf.delete(id);
    else openOf.set(id, others);
  });
}

interface OpenedLog extends LogSource {
  readonly bytes: AsyncIterable<Buffer>;
}

/** Rejects with the first error if no log can be read. A log that cannot be read beside others has the error as its line. */
async function openAll(sources: readonly LogSource[], signal: AbortSignal): Promise<readonly OpenedLog[]> {
  const results = await Promise.allSettled(sources.map((source) => source.open(signal)));
  const [first] = results;
  if (first?.status === "rejected" && results.every(({ status }) => status === "rejected"))
    throw first.reason;
  return sources.map((source, index) => {
    const result = results[index];
    if (result?.status === "fulfilled") return { ...source, bytes: result.value };
    return { ...source, bytes: nothing(), endNotes: () => [noteOf(result?.reason)] };
  });
}

async function* nothing(): AsyncGenerator<Buffer> {}

/** No faster than the client reads. */
async function send(
  response: ServerResponse,
  { bytes, replica, hasTimes, endNotes }: OpenedLog,
  accepts: LineFilter,
  signal: AbortSignal,
): Promise<void> {
  try {
    for await (const lines of linesIn(bytes)) {
      const parsed = lines.map((line) => parseLine(line, replica, hasTimes));
      const isShown = accepts(parsed.map(({ line }) => line));
      await write(
        response,
        parsed.filter((_, index) => isShown[index]),
      );
      if (signal.aborted) return;
    }
    await write(
      response,
      endNotes().map((line) => ({ replica, line, isNote: true })),
    );
  } catch (error) {
    if (!signal.aborted) await write(response, [{ replica, line: noteOf(error), isNote: true }]);
  }
}

/** The complete lines of each piece, and the last one without its end. */
async function* linesIn(bytes: AsyncIterable<Buffer>): AsyncGenerator<readonly string[]> {
  const decoder = new StringDecoder("utf8");
  let rest = "";
  for await (const piece of bytes) {
    const lines = (rest + decoder.write(piece)).split("\n");
    rest = (lines.pop() ?? "").slice(0, MAX_LINE);
    if (lines.length > 0) yield lines;
  }
  if (rest !== "") yield [rest];
}

function parseLine(text: string, replica: string, hasTimes: boolean): LogLine {
  const space = hasTimes ? text.indexOf(" ") : -1;
  const at = space > 0 ? text.slice(0, space) : undefined;
  const line = terminalText(text.slice(space + 1, space + 1 + MAX_LINE).replace(COLOR, "")).trimEnd();
  return { at, line, replica };
}

/** Resolves when the client has room for more, or has left. */
async function write(response: ServerResponse, lines: readonly LogLine[]): Promise<void> {
  if (lines.length === 0 || response.destroyed) return;
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  if (response.write(text)) return;
  const done = new AbortController();
  const { signal } = done;
  await Promise.race([once(response, "drain", { signal }), once(response, "close", { signal })]).finally(() =>
    done.abort(),
  );
}

function startBeats(response: ServerResponse, clock: Clock): () => void {
  let cancel = () => {};
  const beat = (): void => {
    cancel = clock.after(BEAT_MS, () => {
      if (!response.writableNeedDrain) response.write("\n");
      beat();
    });
  };
  beat();
  response.once("close", () => cancel());
  return () => cancel();
}

function noteOf(error: unknown): string {
  return error instanceof MetalbridgeError ? describeError(error) : errorMessage(error);
}
