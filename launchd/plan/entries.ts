/** Every folder, file and link of an installation besides its versions. Pure. */
import { dirname } from "node:path/posix";
import { type InstallLayout, placesBelow } from "../layout/layout.ts";
import { renderAgentPlist } from "../plist/agent-plist.ts";
import { renderUnit } from "../systemd/unit.ts";

export type Owner = "installer" | "account";

/** As it should be. `isKept`: written where it is missing, and never changed. */
export type InstallEntry =
  | { readonly kind: "folder"; readonly path: string; readonly owner: Owner; readonly mode: number }
  | {
      readonly kind: "file";
      readonly path: string;
      readonly owner: Owner;
      readonly mode: number;
      readonly text: string;
      readonly isKept: boolean;
    }
  /** What root may have put there: given to the owner while the folder is root's, and never made. */
  | { readonly kind: "found"; readonly path: string; readonly owner: Owner; readonly mode: number }
  | { readonly kind: "link"; readonly path: string; readonly target: string };

/** What `install.json` keeps, so that upgrade and uninstall find what install was asked for. */
export interface Choices {
  readonly layout: InstallLayout;
  /** How long a stopping agent may drain before launchd or systemd kills it. */
  readonly drainSeconds: number;
}

/** What the user gave; undefined leaves what is there. */
export interface ProvidedFiles {
  readonly config?: string | undefined;
  readonly kubeconfig?: string | undefined;
}

export const DEFAULT_CONFIG = `# Settings of the agent; docs/configuration.md lists all keys. Restart with: metalbridge restart
`;

export function definitionOf({ layout, drainSeconds }: Choices): string {
  return (layout.manager === "launchd" ? renderAgentPlist : renderUnit)(layout, drainSeconds);
}

/** In the order in which they are made. The definition comes last: it must not name what does not exist yet. */
export function entriesOf(choices: Choices, given: ProvidedFiles = {}): readonly InstallEntry[] {
  const { layout } = choices;
  const { prefix, stateDir, agentLog, crashLog, configFile, kubeconfig } = layout;
  const { versions, current, choices: choicesFile } = placesBelow(prefix);
  return [
    folder(prefix, "installer", 0o755),
    file(choicesFile, "installer", 0o644, `${JSON.stringify(choices, undefined, 2)}\n`),
    folder(versions, "installer", 0o755),
    // Of a join by root, before the account existed: corrected while the folder is still root's.
    ...(given.kubeconfig === undefined
      ? [{ kind: "found", path: kubeconfig, owner: "account", mode: 0o600 } as const]
      : []),
    folder(stateDir, "account", 0o700),
    ...(agentLog === undefined ? [] : [folder(dirname(agentLog), "account", 0o700)]),
    // The folder belongs to root and the file to the account: launchd can open it as either, and no link can be put there.
    ...(crashLog === undefined
      ? []
      : [folder(dirname(crashLog), "installer", 0o755), kept(crashLog, "account", 0o600, "")]),
    folder(dirname(configFile), "installer", 0o755),
    given.config === undefined
      ? kept(configFile, "installer", 0o644, DEFAULT_CONFIG)
      : file(configFile, "installer", 0o644, given.config),
    ...(given.kubeconfig === undefined ? [] : [file(kubeconfig, "account", 0o600, given.kubeconfig)]),
    { kind: "link", path: layout.command, target: `${current}/bin/metalbridge` },
    file(layout.definition, "installer", 0o644, definitionOf(choices)),
  ];
}

function folder(path: string, owner: Owner, mode: number): InstallEntry {
  return { kind: "folder", path, owner, mode };
}

function file(path: string, owner: Owner, mode: number, text: string): InstallEntry {
  return { kind: "file", path, owner, mode, text, isKept: false };
}

function kept(path: string, owner: Owner, mode: number, text: string): InstallEntry {
  return { kind: "file", path, owner, mode, text, isKept: true };
}
