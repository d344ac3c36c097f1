/** Reads a recording back from its file. */
import { readFileSync } from "node:fs";
import type { RecordedEvent, Recording } from "../observe/recording.ts";

export function loadRecording(file: string): Recording {
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line) as RecordedEvent).sort((one, other) => one.at - other.at);
}
