/** Reports that devices may have been added or removed, by watching /dev and udev's database. Without them the machine is only read periodically. */
import { type FSWatcher, watch } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../src/util/ports.ts";
import type { HardwareRoots } from "../host/linux/roots.ts";

const GPU_DEVICES = /^(nvidia|kfd|dri)/;
const PCI_DEVICES = /^\+pci:/;
/** Drivers create several files, one after the other. */
const SETTLE_MS = 2_000;

export function watchDevices(
  { dev, udev }: Pick<HardwareRoots, "dev" | "udev">,
  { clock, signal, onChange }: { clock: Clock; signal: AbortSignal; onChange: () => void },
): void {
  let cancel: (() => void) | undefined;
  const onEvent = (): void => {
    cancel?.();
    cancel = clock.after(SETTLE_MS, onChange);
  };
  const watchers = [
    watchFolder(dev, GPU_DEVICES, onEvent),
    watchFolder(join(udev, "data"), PCI_DEVICES, onEvent),
  ];
  const stop = (): void => {
    cancel?.();
    for (const watcher of watchers) watcher?.close();
  };
  if (signal.aborted) stop();
  else signal.addEventListener("abort", stop, { once: true });
}

function watchFolder(folder: string, names: RegExp, onChange: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(folder, { persistent: false }, (_, name) => {
      if (names.test(name ?? "")) onChange();
    });
    // The folder may be removed while it is watched.
    watcher.on("error", () => watcher.close());
    return watcher;
  } catch {
    return undefined;
  }
}
