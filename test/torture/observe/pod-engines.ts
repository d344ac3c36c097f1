/** The engines of pods, by the control groups of their nodes: nothing inside a pod is asked. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { foldersIn, pidsIn } from "../../bed/node/cgroups.ts";
import type { RealNode } from "../../bed/node/node.ts";

const ROOT = "/sys/fs/cgroup/pids";
const POD = /^pod([0-9a-f-]{36})$/;

export interface PodEngine {
  /** As this machine numbers it. */
  readonly pid: number;
  /** Folder of its container's control group. */
  readonly dir: string;
  /** UID of the pod. */
  readonly uid: string;
  readonly host: string;
}

export function podEngines(nodes: readonly Pick<RealNode, "name" | "folder">[]): readonly PodEngine[] {
  return nodes.flatMap(({ name: host, folder }) =>
    podGroups(path.join(ROOT, path.basename(folder))).flatMap(({ uid, group }) =>
      foldersIn(group).flatMap((container) => {
        const dir = path.join(group, container);
        return pidsIn(dir)
          .filter(isEngine)
          .map((pid) => ({ pid, dir, uid, host }));
      }),
    ),
  );
}

/** What kubelet has for pods on a node: control groups, and folders with mounts. */
export function podTraces({ name, folder }: Pick<RealNode, "name" | "folder">): readonly string[] {
  const groups = podGroups(path.join(ROOT, path.basename(folder)));
  const folders = foldersIn(path.join(folder, "kubelet", "pods"));
  return [
    ...groups.map(({ uid }) => `${name}: control group of pod ${uid}`),
    ...folders.map((uid) => `${name}: folder of pod ${uid}`),
  ];
}

/** Below the node, one level down for pods that are guaranteed nothing. */
function podGroups(folder: string): readonly { readonly uid: string; readonly group: string }[] {
  return foldersIn(folder).flatMap((name) => {
    const group = path.join(folder, name);
    const [, uid] = POD.exec(name) ?? [];
    return uid === undefined ? podGroups(group) : [{ uid, group }];
  });
}

function isEngine(pid: number): boolean {
  try {
    const [program = ""] = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
    return path.basename(program) === "llama-server";
  } catch {
    // It has exited meanwhile.
    return false;
  }
}
