/** A bar for the progress of a download, on a terminal. */
import { SingleBar } from "cli-progress";
import type { Download } from "../src/verdicts/download.ts";

export interface DownloadBar {
  /** Shows or moves the bar; removes it without a download, or while its size is unknown. */
  readonly update: (download: Download | undefined) => void;
}

export function createDownloadBar(stream: NodeJS.WriteStream, { indent = "" } = {}): DownloadBar {
  let bar: SingleBar | undefined;
  return {
    update: ({ bytes, totalBytes } = { bytes: 0 }) => {
      if (totalBytes === undefined) {
        bar?.stop();
        bar = undefined;
        return;
      }
      const mib = Math.round(totalBytes / 2 ** 20);
      if (bar === undefined) {
        const format = `${indent}fetching {bar} {percentage}% of {mib} MiB, {eta_formatted} left`;
        bar = new SingleBar({ stream, clearOnComplete: true, format });
        bar.start(totalBytes, bytes, { mib });
      }
      bar.setTotal(totalBytes);
      bar.update(bytes, { mib });
    },
  };
}
