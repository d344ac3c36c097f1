/** Installing, upgrading and removing the agent's service. */
import type { ErrorEntry } from "./entry.ts";

export const installErrors = {
  RootRequired: {
    what: "Only root can change a system service.",
    do: "run the same command with sudo, or install for your user only with --scope user (macOS)",
  },
  RootRefused: {
    what: "A LaunchAgent cannot be installed by root: it belongs to the user who logs in, who could not change files that root created.",
    do: "run the same command without sudo, or install a LaunchDaemon with --scope system",
  },
  InstallNotFound: {
    what: "Metalbridge is not installed as a service on this machine.",
    do: "install it",
    command: "sudo metalbridge install",
  },
  InstallUnreadable: {
    what: "The record of what was installed (install.json) is corrupt.",
    do: "run install again with the same options as before; it repairs the installation",
    command: "sudo metalbridge install",
  },
  InstallBusy: {
    what: "Another command is installing, upgrading, starting, stopping or removing this installation.",
    do: "wait until it has finished, then run the same command again",
  },
  InstallFailed: {
    what: "A step of install, upgrade or uninstall failed; running programs were not affected.",
    do: "fix what the message names, then run the same command again: it continues where it stopped",
  },
  InstallDiskFull: {
    what: "The disk is full. The installed version was not changed.",
    do: "free space on the volume that the message names, then run the same command again",
  },
  ReleaseInvalid: {
    what: "The release is incomplete or damaged: a file is missing, truncated or has the wrong checksum, or the archive is for another platform.",
    do: "download the archive again, and check that it is for this machine's platform",
  },
  ReleaseSumMismatch: {
    what: "The archive's SHA-256 is not the expected one. Nothing was changed.",
    do: "download the archive and its checksum again from the same release",
  },
  ReleaseSumMissing: {
    what: "There is no SHA-256 to check the archive against: none was passed, and there is no .sha256 file next to the archive.",
    do: "pass the checksum from the release with --sha256, or put the .sha256 file next to the archive",
  },
  NotARelease: {
    what: "This program runs from a source checkout, which cannot be installed as a service.",
    do: "install from a release, or build one and pass it with --archive",
    command: "npm run release",
  },
  DowngradeRefused: {
    what: "The version is older than the installed one, and older versions may not read newer state.",
    do: "pass --allow-downgrade if that is intended",
  },
  EngineArchiveInvalid: {
    what: "The archive of an engine cannot be read, contains no engine, or contains entries that are not unpacked as root: paths and links that lead out of it, device files, or set-user-ID programs. Nothing was changed.",
    do: "download a .tar.gz archive of the engine again; repack a .zip: unzip it, then tar -czf",
  },
  EngineSumMissing: {
    what: "No SHA-256 was given to check the archive of an engine against. Nothing was changed.",
    do: "compare the SHA-256 in the message with that of the publisher, then pass it with --sha256; --trust accepts the archive without a check",
  },
  EngineSumMismatch: {
    what: "The SHA-256 of an engine's archive is not the expected one. Nothing was changed.",
    do: "download the archive again, and use the SHA-256 from the same release",
  },
  EngineForAnotherMachine: {
    what: "The engine in the archive was built for another system or processor. Nothing was changed.",
    do: "download the archive for this machine",
  },
  EngineNotInstalled: {
    what: "No engine with that version is installed.",
    do: "use a version from the list",
    command: "metalbridge engine list",
  },
  EngineInUse: {
    what: "Processes of the engine to remove are still running.",
    do: "use another version and move the replicas off this host, then retry",
    command: "metalbridge drain <host>",
  },
  ServiceForeign: {
    what: "A service with this name exists that Metalbridge did not install, or that belongs to another installation.",
    do: "remove it, or pass --take-over to replace it; its engines keep running and are adopted if the state folder is the same",
  },
  ServiceLoadFailed: {
    what: "launchd or systemd did not accept the service.",
    do: "fix what the message names, then run the same command again",
  },
  ServiceUnhealthy: {
    what: "The agent did not start serving in time after install, start or restart.",
    do: "read the log in the message, fix the cause and restart it",
    command: "sudo metalbridge restart",
  },
  UpgradeRolledBack: {
    what: "The new version or configuration did not serve in time. The previous one is running again; engines were not affected.",
    do: "read the reason in the message; the usual cause is a setting that the version rejects",
  },
  RollbackFailed: {
    what: "The new version or configuration did not serve in time, and the previous one did not start either.",
    do: "read the log in the message; engines keep running without an agent, but are removed from their Services after 40 s",
    command: "sudo metalbridge restart",
  },
  UpgradeStopped: {
    what: "The upgrade of several hosts has stopped: a host failed, or the command was interrupted. Hosts that it had not reached were not changed.",
    do: "fix the host that the message names, then run the same command again: it continues with the hosts that are not on the version",
  },
  UpgradeIncomplete: {
    what: "All hosts that answer were upgraded. The hosts in the message do not answer and were skipped.",
    do: "make them reachable, then run the same command again",
    command: "metalbridge host list",
  },
  UpgradeArchiveMissing: {
    what: "No release archive was passed for the platform of some hosts. Nothing was changed.",
    do: "pass the archive of each platform with --archive, or exclude these hosts",
  },
  HostNotHealthy: {
    what: "The upgrade succeeded on the host, but it does not serve as before: its agent does not report the new version, the host is not ready, or an engine was restarted.",
    do: "inspect the host; the other hosts were not changed",
    command: "metalbridge describe host HOST",
  },
  SshFailed: {
    what: "No ssh connection to the host: the name is unknown, the key is refused or unknown, or the host does not answer or does not finish in time. ssh runs without prompts, so it cannot ask for a password.",
    do: "make `ssh HOST true` work without a prompt: load the key into ssh-agent, accept the host's key, or configure the host in ~/.ssh/config",
  },
  SudoRefused: {
    what: "sudo on the host requires a password, or does not allow the account to become root. Nothing was changed on the host.",
    do: "allow it without a password in /etc/sudoers.d on the host (ADMIN ALL=(root) NOPASSWD: /bin/sh), or log in as root with --ssh-user",
  },
  EnginesRunning: {
    what: "Engines still serve on this host, and uninstall would stop them.",
    do: "drain the host first, or pass --stop-engines to drain them here",
    command: "metalbridge drain HOST",
  },
} as const satisfies Record<string, ErrorEntry>;
