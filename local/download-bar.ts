/** A bar for the progress of a download, on a terminal. */
import { SingleBar } from "cli-progress";

export interface DownloadProgress {
  readonly bytes: number;
  readonly totalBytes: number;
}

export interface DownloadBar {
  /** Shows or moves the bar; `undefined` removes it. */
  readonly update: (progress: DownloadProgress | undefined) => void;
}

export function createDownloadBar(stream: NodeJS.WriteStream, { indent = "" } = {}): DownloadBar {
  let bar: SingleBar | undefined;
  return {
    update: (progress) => {
      if (progress === undefined) {
        bar?.stop();
        bar = undefined;
        return;
      }
      const { bytes, totalBytes } = progress;
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
