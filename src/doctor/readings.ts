/** The facts that doctor reads on a machine before the checks. A reading is a value, or the reason why it is missing. */
import type { ErrorCode } from "../api/errors.ts";

export type Reading<T> = { readonly value: T } | { readonly unknown: string };

/** Absent keys are readings that this system does not have; checks that need them do not apply there. */
export type TakenReadings = { readonly [Key in keyof Readings]?: Reading<Readings[Key]> };

export interface Readings {
  readonly nowMs: number;
  readonly machine: MachineReading;
  readonly program: { readonly nodeArch: string; readonly isTranslated: boolean };
  /** macOS: `pmset -g`. */
  readonly power: PowerSettings;
  readonly powerSource: { readonly source: "mains" | "battery"; readonly hasBattery: boolean };
  /** Percent of full speed; absent where nothing was recorded. `warningLevel`: of the system, 0 is none. */
  readonly thermal: { readonly speedLimitPercent?: number | undefined; readonly warningLevel?: number };
  readonly fileVault: { readonly isOn: boolean };
  readonly updates: { readonly isAutomatic: boolean };
  readonly gpuMemory: {
    readonly wiredLimitMb: number;
    readonly totalBytes: number;
    readonly defaultBytes: number;
  };
  readonly memory: {
    readonly pressure: string;
    readonly totalBytes?: number | undefined;
    readonly swapUsedBytes?: number | undefined;
  };
  readonly store: {
    readonly folder: string;
    readonly freeBytes: number;
    readonly totalBytes: number;
    readonly reserveBytes: number;
  };
  readonly writeSpeed: { readonly bytesPerSecond: number };
  readonly backup: { readonly folder: string; readonly isExcluded: boolean };
  readonly disks: readonly { readonly name: string; readonly type: string }[];
  readonly neighbors: Neighbors;
  readonly firewall: Firewall;
  readonly links: readonly Link[];
  readonly names: readonly { readonly name: string; readonly use: string; readonly error?: string }[];
  readonly api: ApiReading;
  readonly credential: CredentialReading;
  /** Result of the agent's preflight; has a code if it failed. */
  readonly preflight: readonly {
    readonly what: string;
    readonly code?: ErrorCode;
    readonly text: string;
    readonly command?: string;
  }[];
  readonly engines: readonly FoundEngine[];
  /** Engines in use that `metalbridge engine install` has installed; `changes` has one sentence for each file that differs. */
  readonly pinnedEngines: readonly { readonly path: string; readonly changes: readonly string[] }[];
  readonly processes: readonly ProcessReading[];
  readonly ports: PortReading;
  readonly crashes: readonly CrashReport[];
  readonly oomKills: number;
  readonly fileLimit: { readonly files: number; readonly of: string };
  /** Engines that a supervisor of another kind has loaded, and the command that stops each. */
  readonly supervised: readonly { readonly name: string; readonly stop: string }[];
  readonly service: ServiceReading;
  readonly stateDir: { readonly path: string; readonly uid?: number; readonly ownUid: number };
  readonly files: readonly FileReading[];
  readonly engineFolders: readonly EngineFolder[];
  readonly agent: { readonly isRunning: boolean; readonly pid?: string };
  readonly isPsiAvailable: boolean;
  readonly hostFirewall: { readonly active?: string };
  readonly gpus: readonly {
    readonly name: string;
    readonly isDriverLoaded: boolean;
    readonly mayUse: boolean;
  }[];
}

export interface MachineReading {
  readonly osVersion: string;
  readonly chip?: string | undefined;
  readonly hardwareModel?: string | undefined;
}

export interface PowerSettings {
  readonly sleepMinutes?: number;
  readonly isSleepDisabled: boolean;
  /** Absent on Macs without the setting. */
  readonly restartsAfterPowerLoss?: boolean;
  readonly isPowerNapOn: boolean;
  readonly isLowPowerModeOn: boolean;
}

/** answers: something came back, a refusal included. noRoute: the system said so at once. silent: nothing in time. */
export type Reachability = "answers" | "noRoute" | "silent";

export interface Neighbors {
  readonly gateway?: { readonly address: string; readonly reach: Reachability };
  /** Others of the same network, as the system knows them. */
  readonly peers: readonly { readonly address: string; readonly reach: Reachability }[];
}

export interface Firewall {
  readonly state: "off" | "on" | "blockAll";
  readonly programs: readonly {
    readonly engine: string;
    readonly path: string;
    readonly verdict: "permitted" | "blocked" | "unlisted" | "unknown";
  }[];
}

export interface Link {
  readonly name: string;
  readonly kind: "ethernet" | "thunderbolt" | "wifi" | "other";
  readonly isUp: boolean;
  readonly megabits?: number;
  readonly address?: string;
  /** True for the one that leads to the API server. */
  readonly isRoute: boolean;
}

export type ApiReading = {
  readonly server: string;
  readonly sentMs: number;
  readonly receivedMs: number;
  /** The Date header of the response. */
  readonly dateMs?: number;
  readonly failure?: { readonly code: ErrorCode; readonly message: string };
};

export interface CredentialReading {
  readonly kind: "token" | "certificate";
  readonly fromMs?: number | undefined;
  /** Absent: it does not expire. */
  readonly untilMs?: number | undefined;
}

export interface FoundEngine {
  readonly runtime: string;
  readonly path: string;
  readonly version?: string | undefined;
  /** The first account besides root that may change the program or a folder on the way to it. */
  readonly changeableBy?: number | undefined;
  /** Installed and unusable. */
  readonly problem?: { readonly code: ErrorCode; readonly message: string };
}

export interface ProcessReading {
  readonly pid: number;
  readonly command: string;
  readonly isOurs: boolean;
}

export interface PortReading {
  readonly first: number;
  readonly last: number;
  readonly listeners: readonly {
    readonly port: number;
    readonly program?: string;
    readonly pid?: number;
    readonly isOurs: boolean;
  }[];
  readonly ephemeral?: readonly [number, number];
}

export interface CrashReport {
  readonly kind: "panic" | "jetsam";
  readonly file: string;
  readonly atMs: number;
  readonly isGpu: boolean;
}

export interface ServiceReading {
  /** Absent: not installed. */
  readonly found?: {
    readonly name: string;
    readonly kind: "daemon" | "loginAgent" | "systemd";
    readonly state: string;
    readonly pid?: number;
    readonly runs?: number;
    readonly lastExit?: string;
    readonly processType?: string;
    readonly endsEngines?: string;
  };
}

export interface FileReading {
  readonly path: string;
  readonly role: "stateDir" | "credential" | "kubeconfig" | "config";
  readonly mode: number;
  readonly uid: number;
}

export interface EngineFolder {
  readonly uid: string;
  readonly path: string;
  readonly isDesired: boolean;
  readonly isRunning: boolean;
}

/** The value, where the reading has one. */
export function valueOfReading<T>(reading: Reading<T> | undefined): T | undefined {
  return reading !== undefined && "value" in reading ? reading.value : undefined;
}
