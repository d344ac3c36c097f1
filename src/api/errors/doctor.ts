/** Findings of `metalbridge doctor` on a host. The checks in src/doctor state the reasons. */
import type { ErrorEntry } from "./entry.ts";

const FIREWALL = "/usr/libexec/ApplicationFirewall/socketfilterfw";

export const doctorErrors = {
  MacosTooOld: {
    what: "This version of macOS no longer gets security updates, and current engines may not run on it.",
    do: "update macOS",
    command: "softwareupdate --list",
  },
  ChipNotSupported: {
    what: "This Mac has no Apple silicon: its engines cannot use the GPU.",
    do: "use a Mac with an M-series chip",
  },
  NodeTranslated: {
    what: "Node runs under Rosetta, translated from x86-64.",
    do: "install Node for arm64 and start the agent with it",
    command: "arch -arm64 brew install node",
  },
  UpdatesRestartHost: {
    what: "macOS installs updates automatically, and then restarts.",
    do: "install updates yourself, after `metalbridge drain`",
    command:
      "sudo defaults write /Library/Preferences/com.apple.SoftwareUpdate AutomaticallyInstallMacOSUpdates -bool false",
  },
  KernelPanicked: {
    what: "The kernel panicked within the last week.",
    do: "lower the host's memory budget or update the engine, then read the report",
    command: "ls -t /Library/Logs/DiagnosticReports/*.panic",
  },
  JetsamKilled: {
    what: "macOS killed processes to free memory within the last week.",
    do: "raise spec.memory.systemReserve of the Host, or stop other programs that need memory",
    command: "ls -t /Library/Logs/DiagnosticReports/JetsamEvent-*",
  },
  OomKilled: {
    what: "The kernel's OOM killer has killed processes since the last boot.",
    do: "raise spec.memory.systemReserve of the Host, or stop other programs that need memory",
    command: "journalctl -k --grep 'Out of memory'",
  },
  ThermalThrottled: {
    what: "The system has lowered the processor's speed because of heat.",
    do: "improve the airflow around the machine, or move load to other hosts",
    command: "pmset -g therm",
  },
  SleepEnabled: {
    what: "The machine goes to sleep when it is idle.",
    do: "turn off sleep",
    command: "sudo pmset -a sleep 0 disablesleep 1",
  },
  LidSleeps: {
    what: "Closing the lid puts this Mac to sleep; the agent cannot prevent that.",
    do: "turn off sleep for a closed lid, or leave it open",
    command: "sudo pmset -a disablesleep 1",
  },
  PowerNapOn: {
    what: "Power Nap is on: macOS wakes up for background work.",
    do: "turn it off",
    command: "sudo pmset -a powernap 0",
  },
  NoRestartAfterPowerLoss: {
    what: "The machine stays off after a power failure.",
    do: "let it start automatically",
    command: "sudo pmset -a autorestart 1",
  },
  FileVaultOn: {
    what: "FileVault is on: after a boot nothing starts until the disk is unlocked.",
    do: "turn it off on hosts that must recover unattended",
    command: "sudo fdesetup disable",
  },
  OnBattery: {
    what: "The machine runs on its battery.",
    do: "connect it to power, or cordon the host",
    command: "metalbridge cordon <host>",
  },
  LowPowerMode: {
    what: "Low Power Mode is on and slows the GPU.",
    do: "turn it off",
    command: "sudo pmset -a lowpowermode 0",
  },
  WiredLimitTooHigh: {
    what: "iogpu.wired_limit_mb leaves too little memory for macOS.",
    do: "lower it, or restore the default limit of the system",
    command: "sudo sysctl iogpu.wired_limit_mb=0",
  },
  WiredLimitLow: {
    what: "iogpu.wired_limit_mb is below the default limit of macOS.",
    do: "restore the default limit of the system",
    command: "sudo sysctl iogpu.wired_limit_mb=0",
  },
  MemoryShort: {
    what: "The system reports memory pressure.",
    do: "stop programs that need memory, or raise spec.memory.systemReserve of the Host",
    command: "top -o mem",
  },
  SwapHeavy: {
    what: "The swapped-out memory exceeds half of the machine's memory.",
    do: "stop programs that need memory, then restart the machine after `metalbridge drain`",
  },
  PressureUnreadable: {
    what: "The kernel does not report memory pressure (PSI): the agent can only estimate it.",
    do: "boot with psi=1, or use a kernel with CONFIG_PSI",
    command: "cat /proc/pressure/memory",
  },
  DiskSlow: {
    what: "Writing to the model store is slow.",
    do: "put the state folder on an internal or NVMe disk, with --state-dir",
  },
  DiskRotational: {
    what: "This machine has a rotating disk, from which models load at a tenth of an SSD's speed.",
    do: "check that the state folder is on an SSD",
  },
  ModelsBackedUp: {
    what: "Time Machine backs up the model store.",
    do: "exclude it",
    command: "tmutil addexclusion <state folder>/models",
  },
  StateDirTemporary: {
    what: "The state folder is in a folder that the system empties at boot.",
    do: "choose another one with --state-dir",
  },
  LocalNetworkBlocked: {
    what: "Local Network privacy blocks connections to other machines on this network: they cannot be reached although the gateway can.",
    do: "run the agent as a LaunchDaemon, which is exempt, or allow it under Privacy & Security, Local Network",
    command: "sudo metalbridge install --scope system",
  },
  FirewallBlocksEngine: {
    what: "The application firewall does not let this engine accept connections.",
    do: "allow the engine's program, and repeat this after each upgrade, because its path changes",
    command: `sudo ${FIREWALL} --add <program> && sudo ${FIREWALL} --unblockapp <program>`,
  },
  FirewallBlocksAll: {
    what: "The application firewall blocks all incoming connections.",
    do: "turn off `block all`",
    command: `sudo ${FIREWALL} --setblockall off`,
  },
  HostFirewallOn: {
    what: "A firewall of this Linux host is active; doctor cannot read its rules without root.",
    do: "allow the engine ports for the cluster's nodes",
    command: "sudo ufw allow 21000:21999/tcp",
  },
  FastLinkUnused: {
    what: "This machine has a faster link than the one to the cluster.",
    do: "register its address in spec.addresses of the Host and start the agent with it",
    command: "metalbridge agent --address <address>",
  },
  WifiInUse: {
    what: "The connection to the cluster uses Wi-Fi.",
    do: "connect the machine by cable",
  },
  LinkSlow: {
    what: "The cable to the cluster runs at less than 1 Gbit/s.",
    do: "replace the cable or the switch port",
  },
  NameNotResolved: {
    what: "A name that this host needs cannot be resolved.",
    do: "check the machine's DNS servers",
    command: "nslookup <name>",
  },
  ClockSkewed: {
    what: "This machine's clock differs from the API server's.",
    do: "synchronize it",
    command: "sudo sntp -sS time.apple.com",
  },
  CredentialExpired: {
    what: "The credential in the kubeconfig has expired.",
    do: "issue a new join token, and run the printed command on the host; the agent reloads the credential without a restart",
    command: "metalbridge host add <host>",
  },
  CredentialExpiresSoon: {
    what: "More than two thirds of the credential's lifetime have passed.",
    do: "issue a new join token, and run the printed command on the host; the agent reloads the credential without a restart",
    command: "metalbridge host add <host>",
  },
  CredentialLongLived: {
    what: "The credential is valid for more than a year, or does not expire.",
    do: "let the host join: its credential is then renewed automatically, and can be revoked",
    command: "metalbridge host add <host>",
  },
  EngineKnownBad: {
    what: "This version of an engine is known to fail with Metalbridge.",
    do: "upgrade it",
  },
  PortRangeInUse: {
    what: "Another program listens on a port of the range for engines.",
    do: "stop it, or choose another range with --port-range",
  },
  PortRangeEphemeral: {
    what: "The range for engines overlaps the ports that the system gives to outgoing connections.",
    do: "choose another range with --port-range",
    command: "metalbridge agent --port-range 21000-21999",
  },
  OllamaAppRuns: {
    what: "The Ollama app runs: when its own server cannot start, it terminates every other `ollama serve`.",
    do: "quit it, or configure its server as ollama.address",
    command: "osascript -e 'quit app \"Ollama\"'",
  },
  EngineServiceRuns: {
    what: "Another supervisor (brew services, systemd) runs an engine on this machine.",
    do: "stop it",
    command: "brew services list",
  },
  LmStudioRuns: {
    what: "LM Studio runs; the memory of its models is not in the agent's budget.",
    do: "quit it, or raise spec.memory.systemReserve of the Host",
    command: "osascript -e 'quit app \"LM Studio\"'",
  },
  ForeignEngineRuns: {
    what: "An engine that the agent did not start runs on this machine.",
    do: "stop it, or raise spec.memory.systemReserve of the Host by the memory that it needs",
  },
  ServiceNotInstalled: {
    what: "The agent is not installed as a service: it will not start after a boot.",
    do: "install it as described in docs/install-a-mac.md or, for Linux, docs/add-a-host.md",
    command: "sudo metalbridge install --config <file>",
  },
  ServiceIsLoginAgent: {
    what: "The agent runs as a LaunchAgent: it starts at login and stops at logout.",
    do: "install it as a LaunchDaemon",
    command: "metalbridge uninstall --scope user && sudo metalbridge install --scope system",
  },
  ServiceFailing: {
    what: "The service of the agent does not stay up.",
    do: "read the agent's log, and check the configuration",
    command: "metalbridge agent --dry-run",
  },
  ServiceThrottled: {
    what: "launchd throttles the agent and the engines that it starts: ProcessType is not Interactive.",
    do: "run install, which rewrites the plist and restarts the agent; its engines keep running",
    command: "sudo metalbridge install",
  },
  ServiceKillsEngines: {
    what: "A restart of the agent's service would stop its engines.",
    do: "set KillMode=process and OOMPolicy=continue in the unit",
    command: "sudo systemctl edit metalbridge-agent",
  },
  FileLimitLow: {
    what: "The limit on open files is low.",
    do: "raise the system's limit until the next boot, then restart the agent",
    command: "sudo launchctl limit maxfiles 65536 unlimited && sudo metalbridge restart",
  },
  AgentNotRunning: {
    what: "No agent is running with this state folder.",
    do: "start it; if the agent is not installed, run metalbridge agent",
    command: "sudo metalbridge start",
  },
  StateDirOpen: {
    what: "Other users can write to the state folder.",
    do: "remove their permission",
    command: "chmod go-w <state folder>",
  },
  CredentialReadable: {
    what: "Other users can read the host's credential.",
    do: "remove their permission",
    command: "chmod 600 <file>",
  },
  ConfigWritable: {
    what: "Other users can write to the agent's configuration or kubeconfig.",
    do: "remove their permission",
    command: "chmod go-w <file>",
  },
  FilesOfAnotherUser: {
    what: "The state folder belongs to a different user than the one who runs doctor.",
    do: "run it with sudo: doctor then checks the installed agent, as the agent's user",
    command: "sudo metalbridge doctor",
  },
  EngineOfAnotherUser: {
    what: "An account other than root and the agent's can replace the program of an engine, for example the user of Homebrew.",
    do: "on hosts that other people log in to, install a release of the engine that only root can change",
    command: "sudo metalbridge engine install llamacpp --from <archive> --sha256 <sum>",
  },
  EngineFilesChanged: {
    what: "Files of an engine that root installed have changed since.",
    do: "find out who changed them, then install the engine again from its archive",
    command: "sudo metalbridge engine install llamacpp --from <archive> --sha256 <sum>",
  },
  EngineLeftovers: {
    what: "The state folder has folders of engines that are neither desired nor running.",
    do: "remove their folders",
    command: "metalbridge doctor --fix",
  },
  EnginesUnsupervised: {
    what: "Engines are running without an agent.",
    do: "start the agent, which adopts them; 40 s after the agent stopped, they were removed from their Services",
    command: "sudo metalbridge start",
  },
  HostUnreachableFromCluster: {
    what: "A pod in the cluster cannot connect to a port of the host.",
    do: "check the host's firewall, the route between nodes and host, and NetworkPolicies for egress; on the host run",
    command: "metalbridge doctor",
  },
  NoProbeImage: {
    what: "The image for the probe pod is unknown.",
    do: "pass an image that contains Node and that the nodes can pull",
    command: "metalbridge doctor --from-cluster <host> --image node:24-alpine",
  },
  GpuDriverMissing: {
    what: "This machine has a GPU whose driver is not loaded.",
    do: "install the vendor's driver",
    command: "lspci -k -d ::0300",
  },
  GpuNotPermitted: {
    what: "This user has no permission to use the GPU.",
    do: "add the agent's user to the groups of the device",
    command: "sudo usermod -aG video,render metalbridge",
  },
} as const satisfies Record<string, ErrorEntry>;
