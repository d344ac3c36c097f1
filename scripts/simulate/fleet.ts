/** The machines and the models of a simulated day. */
import type { Runtime } from "../../src/api/fields/runtimes.ts";
import type { HostFacts } from "../../src/capacity/placement/types.ts";
import { runtimesFor } from "../../src/engines/registry.ts";
import type { Random } from "../../test/bed/random.ts";

export const GIB = 1024 ** 3;

/** Installed memory in GiB, GB/s, and how many of them there are. */
const MACS: readonly (readonly [{ readonly gib: number; readonly bandwidth: number }, number])[] = [
  [{ gib: 16, bandwidth: 120 }, 12],
  [{ gib: 24, bandwidth: 120 }, 12],
  [{ gib: 32, bandwidth: 150 }, 12],
  [{ gib: 36, bandwidth: 300 }, 10],
  [{ gib: 48, bandwidth: 273 }, 12],
  [{ gib: 64, bandwidth: 410 }, 18],
  [{ gib: 96, bandwidth: 546 }, 10],
  [{ gib: 128, bandwidth: 546 }, 8],
  [{ gib: 192, bandwidth: 800 }, 3],
  [{ gib: 256, bandwidth: 819 }, 2],
  [{ gib: 512, bandwidth: 819 }, 1],
];

const [GGUF_RUNTIME = "generic"] = runtimesFor("gguf", "metal", "chat");
const [MLX_RUNTIME = "generic"] = runtimesFor("mlx", "metal", "chat");

export interface SimulatedHost {
  readonly facts: HostFacts;
  readonly bandwidth: number;
}

export function makeHosts(count: number, random: Random): SimulatedHost[] {
  return Array.from({ length: count }, (_, index) => {
    const { gib, bandwidth } = random.pickWeighted(MACS);
    const share = gib <= 36 ? 0.67 : 0.75;
    const runtimes = random.chance(0.6) ? [GGUF_RUNTIME, MLX_RUNTIME] : [GGUF_RUNTIME];
    const facts: HostFacts = {
      name: `mac-${String(index + 1).padStart(4, "0")}`,
      labels: {
        zone: random.pickWeighted([
          ["a", 1],
          ["b", 1],
          ["c", 1],
        ] as const),
      },
      ready: { status: "True" },
      reachable: { status: "True" },
      isLost: false,
      pressures: [],
      runtimes,
      totalBytes: gib * GIB,
      budget: { known: true, bytes: Math.floor(gib * GIB * share), basis: "simulated" },
      models: [],
      deviceClass: classOf(bandwidth),
      cost: Math.round(gib / 8),
    };
    return { facts, bandwidth };
  });
}

function classOf(bandwidth: number): string {
  return `apple-${bandwidth}`;
}

export interface SimulatedModel {
  readonly source: string;
  /** In parts of the mean. */
  readonly size: number;
  /** Benchmarks by device class, for every second model. */
  readonly speeds?: Readonly<Record<string, number>>;
  readonly runtime: Runtime;
  readonly popularity: number;
}

/** Sizes as models have them: most are small, few are very large; a few are what most people use. */
export function makeModels(random: Random): SimulatedModel[] {
  return Array.from({ length: 40 }, (_, index) => ({
    source: `hf://models/model-${index + 1}`,
    size:
      random.pickWeighted([
        [0.3, 6],
        [0.6, 6],
        [1, 4],
        [1.8, 3],
        [3.5, 1.2],
        [8, 0.3],
      ] as const) * random.between(0.8, 1.2),
    runtime: random.chance(0.85) ? GGUF_RUNTIME : MLX_RUNTIME,
    popularity: 1 / (index + 1),
    speeds:
      index % 2 === 0
        ? Object.fromEntries(MACS.map(([{ bandwidth }]) => [classOf(bandwidth), bandwidth]))
        : undefined,
  }));
}
