/** One case for each check of the cluster, engines, GPUs, the service and its files. */
import type { Case } from "./host-cases.ts";

const DAY = 24 * 3_600_000;
const NOW = Date.parse("2026-06-01T12:00:00Z");

const stateDir = { path: "/var/lib/metalbridge", uid: 501, ownUid: 501 };
const api = { server: "https://10.0.0.1:6443", sentMs: NOW, receivedMs: NOW + 20, dateMs: NOW };
const ports = { first: 21_000, last: 21_999, listeners: [], ephemeral: [49_152, 65_535] as const };
const daemon = { name: "system/x", kind: "daemon", state: "running", pid: 9, runs: 2 } as const;
const folder = { uid: "u1", path: "/state/engines/u1" };
const file = { path: "/etc/mb/agent.yaml", role: "config", uid: 501 } as const;
const kubeconfig = { path: "/home/me/.kube/config", role: "kubeconfig", uid: 501 } as const;
const process = (command: string, isOurs = false) => ({ pid: 700, command, isOurs });

export const agentCases: Readonly<Record<string, Case>> = {
  ApiUnreachable: {
    fires: { api: { ...api, failure: { code: "ApiUnreachable", message: "connect ECONNREFUSED" } } },
    passes: { api },
    says: /10\.0\.0\.1:6443: connect ECONNREFUSED/,
  },
  ClockSkewed: {
    fires: { api: { ...api, sentMs: NOW + 90_000, receivedMs: NOW + 90_020 } },
    // The header has whole seconds.
    passes: { api: { ...api, sentMs: NOW + 1_900, receivedMs: NOW + 1_950 } },
    says: /at least 89 s ahead of the API server's/,
  },
  CredentialExpired: {
    fires: { nowMs: NOW, credential: { kind: "token", untilMs: NOW - DAY } },
    passes: { nowMs: NOW, credential: { kind: "token", untilMs: NOW + DAY } },
    says: /expired at 2026-05-31/,
  },
  CredentialExpiresSoon: {
    fires: { nowMs: NOW, credential: { kind: "token", fromMs: NOW - 3 * DAY, untilMs: NOW + DAY } },
    passes: { nowMs: NOW, credential: { kind: "token", fromMs: NOW - DAY, untilMs: NOW + DAY } },
    says: /expires at 2026-06-02/,
  },
  CredentialLongLived: {
    fires: { nowMs: NOW, credential: { kind: "certificate", untilMs: NOW + 3650 * DAY } },
    passes: { nowMs: NOW, credential: { kind: "token", untilMs: NOW + 30 * DAY } },
    says: /certificate is valid until 2036/,
  },
  HostNotRegistered: {
    fires: { preflight: [{ what: "host", code: "HostNotRegistered", text: "there is no Host mini-1" }] },
    passes: { preflight: [{ what: "host", text: "Host mini-1 is registered" }] },
    says: /no Host mini-1/,
  },
  AddressUnknown: {
    fires: { preflight: [{ what: "address", code: "AddressNotRegistered", text: "10.0.0.9 is not among" }] },
    passes: { preflight: [{ what: "address", text: "engines will listen on 10.0.0.9" }] },
    says: /10\.0\.0\.9/,
  },
  ApiForbidden: {
    fires: {
      preflight: [{ what: "rights", code: "ApiForbidden", text: "the credential lacks: patch hosts" }],
    },
    passes: { preflight: [{ what: "rights", text: "every right" }] },
    says: /lacks: patch hosts/,
  },
  RuntimeNotInstalled: {
    fires: { engines: [] },
    passes: { engines: [{ runtime: "llamacpp", path: "/l", version: "b11669" }] },
    says: /no engine/,
  },
  EngineKnownBad: {
    fires: { engines: [{ runtime: "omlx", path: "/o", version: "0.3.9" }] },
    passes: {
      engines: [
        { runtime: "omlx", path: "/o", version: "0.7.0" },
        { runtime: "llamacpp", path: "/l", version: "b11669" },
      ],
    },
    says: /0\.3\.9: .*#1442/,
  },
  PortRangeInUse: {
    fires: { ports: { ...ports, listeners: [{ port: 21_000, pid: 7, program: "nginx", isOurs: false }] } },
    passes: {
      ports: {
        ...ports,
        listeners: [
          { port: 21_000, pid: 8, isOurs: true },
          { port: 8_080, pid: 7, isOurs: false },
        ],
      },
    },
    says: /21000 is used by nginx \(pid 7\)/,
  },
  PortRangeEphemeral: {
    fires: { ports: { ...ports, first: 49_000, last: 50_000 } },
    passes: { ports },
    says: /49000-50000 overlaps 49152-65535/,
  },
  OllamaAppRuns: {
    fires: { processes: [process("/Applications/Ollama.app/Contents/MacOS/Ollama hidden")] },
    passes: { processes: [process("/opt/homebrew/bin/ollama serve", true)] },
    says: /pid 700/,
  },
  LmStudioRuns: {
    fires: { processes: [process("/Applications/LM Studio.app/Contents/MacOS/LM Studio")] },
    passes: { processes: [process("/Applications/Studio.app/Contents/MacOS/Studio")] },
    says: /LM Studio/,
  },
  EngineServiceRuns: {
    fires: { supervised: [{ name: "homebrew.mxcl.ollama", stop: "brew services stop ollama" }] },
    passes: { supervised: [] },
    says: /homebrew\.mxcl\.ollama/,
    command: /brew services stop ollama/,
  },
  ForeignEngineRuns: {
    fires: { processes: [process("/usr/bin/python3 /opt/mlx/mlx_lm.server --port 1")] },
    passes: {
      processes: [
        process("/opt/homebrew/bin/llama-server -m x", true),
        process("vim llama-server.md"),
        process("/Applications/Ollama.app/Contents/Resources/ollama serve"),
      ],
    },
    says: /pid 700: .*mlx_lm\.server/,
  },
  GpuDriverMissing: {
    platform: "linux",
    fires: { gpus: [{ name: "NVIDIA GPU", isDriverLoaded: false, mayUse: false }] },
    passes: { gpus: [{ name: "NVIDIA GPU", isDriverLoaded: true, mayUse: true }] },
    says: /NVIDIA/,
  },
  GpuNotPermitted: {
    platform: "linux",
    fires: { gpus: [{ name: "AMD GPU", isDriverLoaded: true, mayUse: false }] },
    passes: { gpus: [{ name: "AMD GPU", isDriverLoaded: true, mayUse: true }] },
    says: /AMD/,
  },
  AgentNotRunning: {
    fires: { stateDir, agent: { isRunning: false } },
    passes: { stateDir, agent: { isRunning: true, pid: "12" } },
    says: /var\/lib\/metalbridge/,
  },
  ServiceNotInstalled: { fires: { service: {} }, passes: { service: { found: daemon } }, says: /no service/ },
  ServiceIsLoginAgent: {
    fires: { service: { found: { ...daemon, kind: "loginAgent" } } },
    passes: { service: { found: daemon } },
    says: /LaunchAgent/,
  },
  ServiceFailing: {
    fires: { service: { found: { ...daemon, runs: 27, lastExit: "78: EX_CONFIG" } } },
    passes: { service: { found: { ...daemon, runs: 27, lastExit: "0" } } },
    says: /27 times, last exit 78/,
  },
  ServiceThrottled: {
    fires: { service: { found: { ...daemon, processType: "Standard" } } },
    passes: { service: { found: { ...daemon, processType: "Interactive" } } },
    says: /Standard/,
    command: /sudo metalbridge install/,
  },
  ServiceKillsEngines: {
    platform: "linux",
    fires: { service: { found: { ...daemon, kind: "systemd", endsEngines: "KillMode=control-group" } } },
    passes: { service: { found: { ...daemon, kind: "systemd" } } },
    says: /KillMode=control-group/,
  },
  FileLimitLow: {
    fires: { fileLimit: { files: 256, of: "this session" } },
    passes: { fileLimit: { files: 65_536, of: "this session" } },
    says: /256 open files/,
  },
  FilesOfAnotherUser: {
    fires: { stateDir: { ...stateDir, uid: 400 } },
    passes: { stateDir },
    says: /uid 400/,
  },
  StateDirOpen: {
    fires: { stateDir, files: [{ path: "/state", role: "stateDir", mode: 0o777, uid: 501 }] },
    passes: { stateDir, files: [{ path: "/state", role: "stateDir", mode: 0o755, uid: 501 }] },
    says: /mode 777/,
    command: /^chmod 755 \/state$/,
  },
  CredentialReadable: {
    fires: { stateDir, files: [{ ...kubeconfig, mode: 0o644 }] },
    passes: { stateDir, files: [{ ...kubeconfig, mode: 0o600 }] },
    says: /mode 644/,
    command: /^chmod 600 /,
  },
  ConfigWritable: {
    fires: { stateDir, files: [{ ...file, mode: 0o664, uid: 0 }] },
    passes: { stateDir, files: [{ ...file, mode: 0o644 }] },
    says: /mode 664/,
    command: /^sudo chmod 644 /,
  },
  EngineFilesChanged: {
    fires: {
      pinnedEngines: [
        { path: "/usr/local/lib/e/b1-0", changes: ["bin/llama-server has other bytes", "b", "c", "d"] },
      ],
    },
    passes: { pinnedEngines: [{ path: "/usr/local/lib/e/b1-0", changes: [] }] },
    says: /b1-0: bin\/llama-server has other bytes; b; c; and 1 more/,
    command: /^sudo metalbridge engine install /,
  },
  EngineOfAnotherUser: {
    fires: {
      stateDir,
      engines: [{ runtime: "llamacpp", path: "/opt/homebrew/bin/llama-server", changeableBy: 502 }],
    },
    passes: {
      stateDir,
      engines: [
        { runtime: "llamacpp", path: "/usr/local/lib/llama.cpp/llama-server", changeableBy: undefined },
        { runtime: "ollama", path: "/home/me/ollama", changeableBy: 501 },
      ],
    },
    says: /uid 502 may replace \/opt\/homebrew\/bin\/llama-server/,
  },
  EngineLeftovers: {
    fires: {
      agent: { isRunning: false },
      engineFolders: [{ ...folder, isDesired: false, isRunning: false }],
    },
    passes: {
      agent: { isRunning: false },
      engineFolders: [
        { ...folder, isDesired: true, isRunning: false },
        { ...folder, isDesired: false, isRunning: true },
      ],
    },
    says: /engines\/u1 belongs to no replica/,
  },
  EnginesUnsupervised: {
    fires: { agent: { isRunning: false }, engineFolders: [{ ...folder, isDesired: true, isRunning: true }] },
    passes: { agent: { isRunning: true }, engineFolders: [{ ...folder, isDesired: true, isRunning: true }] },
    says: /1 engines run/,
  },
};
