/** One case for each check of the machine, its power, memory, storage and network. */
import type { Platform } from "../checks/check.ts";
import type { Link, Readings } from "../readings.ts";

export type Given = Partial<Readings>;

export interface Case {
  readonly platform?: Platform;
  readonly fires: Given;
  readonly passes: Given;
  /** Text that the finding must contain. */
  readonly says: RegExp;
  readonly command?: RegExp;
}

const GIB = 2 ** 30;
const DAY = 24 * 3_600_000;
const NOW = Date.parse("2026-06-01T12:00:00Z");

const power = {
  sleepMinutes: 0,
  isSleepDisabled: true,
  restartsAfterPowerLoss: true,
  isPowerNapOn: false,
  isLowPowerModeOn: false,
};
const mains = { source: "mains", hasBattery: true } as const;
const stateDir = { path: "/var/lib/metalbridge", uid: 501, ownUid: 501 };
const store = { folder: "/models", totalBytes: 1000 * GIB, reserveBytes: 5 * GIB };
const en0: Link = { name: "en0", kind: "ethernet", isUp: true, isRoute: true, megabits: 1_000 };
const macos15 = { osVersion: "15.6.1", chip: "Apple M4 Max" };

export const hostCases: Readonly<Record<string, Case>> = {
  MacosTooOld: {
    fires: { machine: { osVersion: "13.6" } },
    passes: { machine: { osVersion: "26.1" } },
    says: /macOS 13\.6/,
  },
  ChipNotSupported: {
    fires: { machine: { osVersion: "14.5", chip: "Intel(R) Core(TM) i7" } },
    passes: { machine: macos15 },
    says: /Intel/,
  },
  NodeTranslated: {
    fires: { program: { isTranslated: true, nodeArch: "x64" } },
    passes: { program: { isTranslated: false, nodeArch: "arm64" } },
    says: /x64 .* Rosetta/,
  },
  UpdatesRestartHost: {
    fires: { updates: { isAutomatic: true } },
    passes: { updates: { isAutomatic: false } },
    says: /automatically/,
  },
  KernelPanicked: {
    fires: { nowMs: NOW, crashes: [{ kind: "panic", file: "/l/a b.panic", atMs: NOW - DAY, isGpu: true }] },
    passes: {
      nowMs: NOW,
      crashes: [{ kind: "panic", file: "/l/a.panic", atMs: NOW - 30 * DAY, isGpu: true }],
    },
    says: /2026-05-31T12:00:00.000Z, in GPU memory/,
    command: /less '\/l\/a b\.panic'/,
  },
  JetsamKilled: {
    fires: { nowMs: NOW, crashes: [{ kind: "jetsam", file: "/l/j.ips", atMs: NOW - DAY, isGpu: false }] },
    passes: { nowMs: NOW, crashes: [] },
    says: /1 jetsam events within a week/,
  },
  OomKilled: { platform: "linux", fires: { oomKills: 2 }, passes: { oomKills: 0 }, says: /2 processes/ },
  ThermalThrottled: {
    fires: { thermal: { speedLimitPercent: 80 } },
    passes: { thermal: {} },
    says: /80%/,
  },
  SleepEnabled: {
    fires: { power: { ...power, sleepMinutes: 10, isSleepDisabled: false } },
    passes: { power: { ...power, sleepMinutes: 10 } },
    says: /after 10 min/,
    command: /pmset -a sleep 0/,
  },
  LidSleeps: {
    fires: { power: { ...power, isSleepDisabled: false }, powerSource: mains },
    passes: { power, powerSource: mains },
    says: /lid/,
  },
  PowerNapOn: { fires: { power: { ...power, isPowerNapOn: true } }, passes: { power }, says: /Power Nap/ },
  NoRestartAfterPowerLoss: {
    fires: { power: { ...power, restartsAfterPowerLoss: false } },
    passes: { power },
    says: /autorestart/,
  },
  FileVaultOn: { fires: { fileVault: { isOn: true } }, passes: { fileVault: { isOn: false } }, says: /on/ },
  OnBattery: {
    fires: { powerSource: { source: "battery", hasBattery: true } },
    passes: { powerSource: mains },
    says: /battery/,
  },
  LowPowerMode: {
    fires: { power: { ...power, isLowPowerModeOn: true } },
    passes: { power },
    says: /Low Power/,
  },
  WiredLimitTooHigh: {
    fires: { gpuMemory: { wiredLimitMb: 126_000, totalBytes: 128 * GIB, defaultBytes: 107 * GIB } },
    passes: { gpuMemory: { wiredLimitMb: 114_688, totalBytes: 128 * GIB, defaultBytes: 107 * GIB } },
    says: /123 GiB of 128 GiB/,
  },
  WiredLimitLow: {
    fires: { gpuMemory: { wiredLimitMb: 20_000, totalBytes: 48 * GIB, defaultBytes: 37 * GIB } },
    passes: { gpuMemory: { wiredLimitMb: 0, totalBytes: 48 * GIB, defaultBytes: 37 * GIB } },
    says: /37 GiB/,
  },
  MemoryShort: {
    fires: { memory: { pressure: "Critical" } },
    passes: { memory: { pressure: "Normal" } },
    says: /Critical/,
  },
  SwapHeavy: {
    fires: { memory: { pressure: "Normal", totalBytes: 16 * GIB, swapUsedBytes: 9 * GIB } },
    passes: { memory: { pressure: "Normal", totalBytes: 48 * GIB, swapUsedBytes: 8 * GIB } },
    says: /9 GiB .* of 16 GiB/,
  },
  PressureUnreadable: {
    platform: "linux",
    fires: { isPsiAvailable: false },
    passes: { isPsiAvailable: true },
    says: /proc\/pressure/,
  },
  DiskFull: {
    fires: { store: { ...store, freeBytes: 2 * GIB } },
    passes: { store: { ...store, freeBytes: 200 * GIB } },
    says: /2 GiB are free .* less than the reserve of 5 GiB/,
  },
  DiskSlow: {
    fires: { writeSpeed: { bytesPerSecond: 90e6 } },
    passes: { writeSpeed: { bytesPerSecond: 3e9 } },
    says: /90 MB\/s/,
  },
  DiskRotational: {
    fires: { disks: [{ name: "ST4000", type: "HD" }] },
    passes: { disks: [{ name: "APPLE SSD", type: "SSD" }] },
    says: /ST4000/,
  },
  ModelsBackedUp: {
    fires: { backup: { folder: "/Users/me/mb state/models", isExcluded: false } },
    passes: { backup: { folder: "/x", isExcluded: true } },
    says: /part of backups/,
    command: /tmutil addexclusion '\/Users\/me\/mb state\/models'/,
  },
  StateDirTemporary: {
    fires: { stateDir: { ...stateDir, path: "/private/tmp/mb" } },
    passes: { stateDir },
    says: /\/private\/tmp\/mb/,
  },
  LocalNetworkBlocked: {
    fires: {
      machine: macos15,
      service: {},
      neighbors: {
        gateway: { address: "192.168.1.1", reach: "answers" },
        peers: [{ address: "192.168.1.30", reach: "noRoute" }],
      },
    },
    passes: {
      machine: macos15,
      service: {},
      neighbors: {
        gateway: { address: "192.168.1.1", reach: "answers" },
        peers: [
          { address: "192.168.1.30", reach: "noRoute" },
          { address: "192.168.1.31", reach: "silent" },
        ],
      },
    },
    says: /192\.168\.1\.1 answers, but there is no route to 192\.168\.1\.30/,
    command: /sudo metalbridge install/,
  },
  FirewallBlocksAll: {
    fires: { firewall: { state: "blockAll", programs: [] } },
    passes: { firewall: { state: "off", programs: [] } },
    says: /all incoming/,
  },
  FirewallBlocksEngine: {
    fires: {
      firewall: {
        state: "on",
        programs: [{ engine: "llamacpp", path: "/opt/homebrew/Cellar/l/1/bin/l", verdict: "unlisted" }],
      },
    },
    passes: {
      firewall: { state: "on", programs: [{ engine: "llamacpp", path: "/l", verdict: "permitted" }] },
    },
    says: /Cellar.* is not among/,
    command: /socketfilterfw --add \/opt.* --unblockapp \/opt/,
  },
  HostFirewallOn: {
    platform: "linux",
    fires: { hostFirewall: { active: "ufw" } },
    passes: { hostFirewall: {} },
    says: /ufw is active/,
  },
  FastLinkUnused: {
    fires: {
      links: [en0, { name: "bridge0", kind: "thunderbolt", isUp: true, isRoute: false, address: "10.9.0.2" }],
    },
    passes: {
      links: [en0, { name: "en8", kind: "ethernet", isUp: false, isRoute: false, megabits: 10_000 }],
    },
    says: /bridge0 \(thunderbolt\) is up, and the cluster is reached over en0/,
    command: /--address 10\.9\.0\.2/,
  },
  WifiInUse: {
    fires: { links: [{ name: "en1", kind: "wifi", isUp: true, isRoute: true }] },
    passes: { links: [en0] },
    says: /en1/,
  },
  LinkSlow: {
    fires: { links: [{ ...en0, megabits: 100 }] },
    passes: { links: [en0] },
    says: /100 Mbit\/s/,
  },
  NameNotResolved: {
    fires: { names: [{ name: "api.example.com", use: "API server", error: "ENOTFOUND" }] },
    passes: { names: [{ name: "api.example.com", use: "API server" }] },
    says: /api\.example\.com \(API server\) cannot be resolved: ENOTFOUND/,
    command: /nslookup api\.example\.com/,
  },
};
