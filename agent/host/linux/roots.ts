/** The folders with the files of a Linux machine: its own, or those of the node that are mounted in a pod. */
import { join } from "node:path";

export interface HardwareRoots {
  readonly proc: string;
  readonly sys: string;
  readonly dev: string;
  readonly udev: string;
  /** False in a pod: programs would read the pod's own files. */
  readonly isOwn: boolean;
}

export function rootsUnder(root: string): HardwareRoots {
  const at = (path: string) => join(root, path);
  return { proc: at("proc"), sys: at("sys"), dev: at("dev"), udev: at("run/udev"), isOwn: root === "/" };
}
