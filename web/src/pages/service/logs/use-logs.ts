/** Reads the log of a service as long as the tab is open. */
import { useCallback, useEffect, useRef, useState } from "react";
import { CONSOLE_PATH } from "../../../../../src/console/protocol.ts";
import { ConsoleError, request } from "../../../api/request.ts";
import { createLineSplitter, LogRing } from "./ring.ts";

export interface LogQuestion {
  readonly namespace: string;
  readonly service: string;
  /** Empty for all. */
  readonly replica: string;
  /** A text, or a regular expression between slashes. Applied by the server. */
  readonly filter: string;
  readonly tail: number;
}

export interface Logs {
  readonly ring: LogRing;
  readonly at: "reading" | "ended" | "failed";
  readonly error: Error | undefined;
  readonly readAgain: () => void;
}

/** A busy log changes the page at most this often. */
const SHOW_MS = 100;

export function useLogs({ namespace, service, replica, filter, tail }: LogQuestion): Logs {
  const ring = useRef(new LogRing());
  const [, setShown] = useState(0);
  const [end, setEnd] = useState<{ readonly at: "ended" | "failed"; readonly error?: Error }>();
  const [attempt, setAttempt] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another attempt reads again
  useEffect(() => {
    const abort = new AbortController();
    const mine = new LogRing();
    ring.current = mine;
    setEnd(undefined);
    setShown((count) => count + 1);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = (): void => {
      timer ??= setTimeout(() => {
        timer = undefined;
        setShown((count) => count + 1);
      }, SHOW_MS);
    };
    const search = new URLSearchParams({ namespace, service, filter, tail: String(tail), follow: "true" });
    if (replica !== "") search.set("replica", replica);
    void readLines(`${CONSOLE_PATH}/logs?${search}`, abort.signal, (lines) => {
      mine.push(lines);
      show();
    })
      .then(() => setEnd({ at: "ended" }))
      .catch((error: Error) => {
        if (!abort.signal.aborted) setEnd({ at: "failed", error });
      });
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [namespace, service, replica, filter, tail, attempt]);
  return {
    ring: ring.current,
    at: end?.at ?? "reading",
    error: end?.error,
    readAgain: useCallback(() => setAttempt((count) => count + 1), []),
  };
}

async function readLines(
  path: string,
  signal: AbortSignal,
  onLines: (lines: readonly string[]) => void,
): Promise<void> {
  const answer = await request(path, { signal });
  if (answer.body === null) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const split = createLineSplitter();
  for (;;) {
    const { done, value } = await reader.read().catch(() => {
      if (signal.aborted) return { done: true, value: undefined } as const;
      throw new ConsoleError("LogInterrupted", "The connection was lost while the log was read.");
    });
    if (done) return;
    onLines(split(value));
  }
}
