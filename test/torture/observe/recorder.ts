/** Writes events down as they come, in memory and as one line each in a file. */
import { appendFileSync } from "node:fs";
import type { NewEvent, RecordedEvent, Recording } from "./recording.ts";

export interface Recorder {
  /** Milliseconds since the run began. */
  readonly now: () => number;
  /** With the time of now, or of when it really was. */
  readonly note: (event: NewEvent, at?: number) => void;
  readonly recording: () => Recording;
  /** A time of another process of this machine (milliseconds since the epoch, monotonic there) on our clock. */
  readonly fromEpoch: (epochMs: number) => number;
}

/** `onEvent` sees each event once. */
export function createRecorder(file: string, onEvent: (event: RecordedEvent) => void): Recorder {
  const began = performance.now();
  const events: RecordedEvent[] = [];
  const now = () => performance.now() - began;
  return {
    now,
    note: (event, at = now()) => {
      const recorded = { at: Math.round(at * 10) / 10, ...event } as RecordedEvent;
      events.push(recorded);
      appendFileSync(file, `${JSON.stringify(recorded)}\n`);
      onEvent(recorded);
    },
    recording: () => events,
    fromEpoch: (epochMs) => epochMs - performance.timeOrigin - began,
  };
}
