/** The files of the agent: whose they are, and what was left behind. */

import type { FileReading } from "../readings.ts";
import { type Check, type CheckFinding, defineCheck } from "./check.ts";
import { quoted } from "./machine.ts";

export const fileChecks: readonly Check[] = [
  defineCheck({
    code: "FilesOfAnotherUser",
    title: "owner of the state folder",
    severity: "error",
    reason: "the agent refuses a state folder that another user could change",
    needs: ["stateDir"],
    judge: ({ stateDir: { path, uid, ownUid } }) =>
      uid === undefined || uid === ownUid || ownUid === 0
        ? []
        : [{ finding: `${path} belongs to uid ${uid}, and doctor runs as uid ${ownUid}` }],
  }),
  defineCheck({
    code: "StateDirOpen",
    title: "permissions of the state folder",
    severity: "error",
    isFixable: true,
    reason: "a user who can write there controls what the agent runs",
    needs: ["files", "stateDir"],
    judge: ({ files, stateDir }) => tooOpen(files, ["stateDir"], 0o022, stateDir.ownUid),
  }),
  defineCheck({
    code: "CredentialReadable",
    title: "permissions of the credential",
    severity: "error",
    isFixable: true,
    reason: "a user who can read it can act as this host in the cluster",
    needs: ["files", "stateDir"],
    judge: ({ files, stateDir }) => tooOpen(files, ["kubeconfig", "credential"], 0o077, stateDir.ownUid),
  }),
  defineCheck({
    code: "ConfigWritable",
    title: "permissions of the configuration",
    severity: "error",
    isFixable: true,
    reason: "the configuration names programs that the agent runs",
    needs: ["files", "stateDir"],
    judge: ({ files, stateDir }) => tooOpen(files, ["config"], 0o022, stateDir.ownUid),
  }),
  defineCheck({
    code: "EngineLeftovers",
    title: "leftovers of engines",
    severity: "note",
    isFixable: true,
    reason: "their records take ports and memory from the budget until an agent has cleared them",
    needs: ["engineFolders", "agent"],
    judge: ({ engineFolders, agent }) => {
      // A running agent clears them itself, once it has listed its replicas.
      if (agent.isRunning) return [];
      return engineFolders
        .filter(({ isDesired, isRunning }) => !isDesired && !isRunning)
        .map(({ path }) => ({
          finding: `${path} belongs to no replica, and nothing of it runs`,
          command: `rm -r ${quoted(path)}`,
          repair: { do: "removeEngine", path },
        }));
    },
  }),
  defineCheck({
    code: "EnginesUnsupervised",
    title: "engines without an agent",
    severity: "error",
    reason: "they hold memory, and get no requests through the cluster",
    needs: ["engineFolders", "agent"],
    judge: ({ engineFolders, agent }) => {
      const running = engineFolders.filter(({ isRunning }) => isRunning);
      return agent.isRunning || running.length === 0
        ? []
        : [{ finding: `${running.length} engines run, and no agent does` }];
    },
  }),
];

/** Repaired only where the file is the user's own: of others' files only the command is shown. */
function tooOpen(
  files: readonly FileReading[],
  roles: readonly FileReading["role"][],
  bits: number,
  ownUid: number,
): readonly CheckFinding[] | "notApplicable" {
  const meant = files.filter(({ role }) => roles.includes(role));
  if (meant.length === 0) return "notApplicable";
  return meant
    .filter(({ mode }) => (mode & bits) !== 0)
    .map(({ path, mode, uid }) => {
      const repairedMode = mode & ~bits;
      const command = `${uid === ownUid ? "" : "sudo "}chmod ${octal(repairedMode)} ${quoted(path)}`;
      const finding = `${path} has mode ${octal(mode)}`;
      return uid === ownUid
        ? { finding, command, repair: { do: "chmod", path, mode: repairedMode } }
        : { finding, command };
    });
}

function octal(mode: number): string {
  return (mode & 0o7777).toString(8);
}
