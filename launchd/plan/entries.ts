/** Every folder, file and link of an installation except its versions. Pure. */
import { dirname } from "node:path/posix";
import * as z from "zod";
import { installLayoutSchema, placesBelow } from "../layout/layout.ts";
import { renderAgentPlist } from "../plist/agent-plist.ts";
import { renderUnit } from "../systemd/unit.ts";

export type EntryOwner = "installer" | "account";

/** The desired state of a path. `keepsExisting`: an existing file is never changed. */
export type InstallEntry =
  | { readonly kind: "folder"; readonly path: string; readonly owner: EntryOwner; readonly mode: number }
  | {
      readonly kind: "file";
      readonly path: string;
      readonly owner: EntryOwner;
      readonly mode: number;
      readonly text: string;
      readonly keepsExisting: boolean;
    }
  /** A file that root may have created. Its owner is corrected while the folder belongs to root; it is never created. */
  | { readonly kind: "found"; readonly path: string; readonly owner: EntryOwner; readonly mode: number }
  | { readonly kind: "link"; readonly path: string; readonly target: string };

/** The content of `install.json`, for upgrade and uninstall. Keys of a newer version are ignored, so that a rollback can read the file. */
export const choicesSchema = z
  .object({
    layout: installLayoutSchema,
    /** Time that a stopping agent may drain before launchd or systemd kills it. */
    drainSeconds: z.int().min(0),
  })
  .readonly();

export type Choices = z.infer<typeof choicesSchema>;

/** Files that the user provided; undefined leaves the existing file unchanged. */
export interface ProvidedFiles {
  readonly config?: string | undefined;
  readonly kubeconfig?: string | undefined;
}

const DEFAULT_CONFIG = `# Settings of the agent; docs/configuration.md lists all keys. Restart with: metalbridge restart
`;

export function definitionOf({ layout, drainSeconds }: Choices): string {
  return (layout.manager === "launchd" ? renderAgentPlist : renderUnit)(layout, drainSeconds);
}

/** The entries in the order of their creation. The definition is last, because it must not name files that do not exist yet. */
export function installEntriesOf(choices: Choices, given: ProvidedFiles = {}): readonly InstallEntry[] {
  const { layout } = choices;
  const { prefix, stateDir, agentLog, crashLog, configFile, kubeconfig } = layout;
  const { versions, current, choices: choicesFile } = placesBelow(prefix);
  return [
    folder(prefix, "installer", 0o755),
    file(choicesFile, "installer", 0o644, `${JSON.stringify(choices, undefined, 2)}\n`),
    folder(versions, "installer", 0o755),
    // `metalbridge join` by root writes it before the account exists. Its owner is corrected while the folder belongs to root.
    ...(given.kubeconfig === undefined
      ? [{ kind: "found", path: kubeconfig, owner: "account", mode: 0o600 } as const]
      : []),
    folder(stateDir, "account", 0o700),
    ...(agentLog === undefined ? [] : [folder(dirname(agentLog), "account", 0o700)]),
    // The folder belongs to root and the file to the account: launchd can open it as either, and the account cannot create a link.
    ...(crashLog === undefined
      ? []
      : [folder(dirname(crashLog), "installer", 0o755), file(crashLog, "account", 0o600, "", true)]),
    folder(dirname(configFile), "installer", 0o755),
    file(configFile, "installer", 0o644, given.config ?? DEFAULT_CONFIG, given.config === undefined),
    ...(given.kubeconfig === undefined ? [] : [file(kubeconfig, "account", 0o600, given.kubeconfig)]),
    { kind: "link", path: layout.command, target: `${current}/bin/metalbridge` },
    file(layout.definition, "installer", 0o644, definitionOf(choices)),
  ];
}

function folder(path: string, owner: EntryOwner, mode: number): InstallEntry {
  return { kind: "folder", path, owner, mode };
}

function file(
  path: string,
  owner: EntryOwner,
  mode: number,
  text: string,
  keepsExisting = false,
): InstallEntry {
  return { kind: "file", path, owner, mode, text, keepsExisting };
}
