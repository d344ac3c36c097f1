/**
 * Which folder may import which. The longest folder that a path starts with decides; a folder may always import itself. `*` stands
 * for one name: each such folder is a layer of its own.
 * `biome.json` forbids the globals with effects in the pure ones: `npm run generate` writes its list from this one.
 */

export interface Layer {
  readonly folder: string;
  /** Folders or files, by prefix, that this one may import. */
  readonly imports: readonly string[];
  /** No effects: no file, process, network, clock, environment or log, and no import of a file that has them. */
  readonly isPure?: boolean;
}

/** Types of Kubernetes objects, without the code that talks to the API server. */
const KUBE_TYPES = ["src/kube/objects.ts", "src/kube/workload-objects.ts"];
const PURE_CORE = ["src/api/", "src/models/", "src/engines/", "src/capacity/", "src/crypto/", "src/util/"];
/** The controller and the agent run without it: their `main.ts` alone load it, and pass it on by a port. */
const FITNESS = "fitness/";

/** What the planner of a replica is made of: each phase has its plan beside its act. */
const PURE_IN_REPLICAS = [
  ...["plan.ts", "evidence/", "prepare/plan.ts", "prepare/need.ts", "end/plan.ts"],
  ...["serve/plan.ts", "serve/failure.ts", "serve/probe-schedule.ts", "stop/plan.ts", "stop/goal.ts"],
  ...["report/status.ts", "report/transitions.ts", "state/probing.ts", "state/step.ts"],
];

/** The rooms of the controller, each with those below it, types included. */
const CONTROLLER_ROOMS = {
  frame: [],
  hosts: ["frame"],
  pods: ["frame"],
  models: ["frame", "pods"],
  services: ["frame", "hosts", "pods"],
  lead: ["frame", "hosts", "pods", "models", "services"],
};
const BELOW_OPTIONS = ["frame", "hosts", "pods", "models", "services"].map((room) => `controller/${room}/`);

export const LAYERS: readonly Layer[] = [
  { folder: "src/util/", imports: [], isPure: true },
  ...["atomic-file.ts", "command.ts", "folder.ts", "plain-file.ts", "process-lock.ts"].map((file) => ({
    folder: `src/util/${file}`,
    imports: ["src/util/"],
  })),
  { folder: "src/api/", imports: ["src/util/", "src/models/source/kinds/"], isPure: true },
  { folder: "src/crypto/", imports: ["src/util/"], isPure: true },
  // Below the API, whose schema of spec.source lists the kinds.
  { folder: "src/models/source/kinds/", imports: ["src/api/fields/shared.ts"], isPure: true },
  { folder: "src/models/", imports: ["src/api/", "src/util/"], isPure: true },
  { folder: "src/engines/", imports: ["src/api/", "src/models/", "src/util/"], isPure: true },
  {
    folder: "src/capacity/",
    imports: ["src/api/", "src/models/", "src/engines/", "src/util/"],
    isPure: true,
  },
  {
    folder: "src/capacity/fitness.ts",
    imports: ["src/api/", "src/kube/workload-objects.ts"],
    isPure: true,
  },
  {
    folder: "src/capacity/revision-data.ts",
    imports: ["src/api/", "src/capacity/", "src/engines/", "src/util/", ...KUBE_TYPES],
    isPure: true,
  },
  {
    folder: "src/capacity/rollback/",
    imports: [
      "src/api/",
      "src/capacity/",
      "src/models/",
      "src/engines/",
      "src/util/",
      "src/kube/types.ts",
      ...KUBE_TYPES,
    ],
    isPure: true,
  },
  { folder: "src/capacity/devices/", imports: ["src/api/", "src/util/", ...KUBE_TYPES], isPure: true },
  { folder: "src/doctor/", imports: ["src/api/", "src/engines/", "src/util/"], isPure: true },
  { folder: "src/gateway/", imports: ["src/api/", "src/util/", ...KUBE_TYPES], isPure: true },
  { folder: "src/console/", imports: ["src/api/"], isPure: true },
  {
    folder: "src/verdicts/",
    imports: ["src/api/", "src/capacity/", "src/console/", "src/engines/", "src/util/", ...KUBE_TYPES],
    isPure: true,
  },
  { folder: "src/kube/", imports: ["src/api/", "src/util/"] },
  { folder: "src/cluster/", imports: ["src/api/", "src/capacity/", "src/kube/", "src/util/"] },
  { folder: "src/hub/", imports: ["src/api/", "src/models/", "src/util/"] },
  { folder: "src/http/", imports: ["src/api/", "src/util/"] },
  { folder: "src/macos/", imports: ["src/api/", "src/doctor/", "src/engines/", "src/util/"] },
  { folder: "src/supervise/", imports: ["src/api/", "src/engines/contract/", "src/macos/", "src/util/"] },
  { folder: FITNESS, imports: [...PURE_CORE, "src/verdicts/", ...KUBE_TYPES], isPure: true },
  { folder: "agent/", imports: ["src/"] },
  ...["agent/main.ts", "agent/node/main.ts"].map((folder) => ({
    folder,
    imports: ["src/", "agent/", FITNESS],
  })),
  ...PURE_IN_REPLICAS.map((part) => ({
    folder: `agent/replicas/${part}`,
    imports: [
      "src/api/",
      "src/models/",
      "src/engines/",
      "src/capacity/",
      "src/util/",
      "src/macos/living-process.ts",
      "agent/",
    ],
    isPure: true,
  })),
  { folder: "agent/pressure/governor/", imports: PURE_CORE, isPure: true },
  ...["plan.ts", "rounds.ts"].map((file) => ({
    folder: `agent/benchmark/${file}`,
    imports: [...PURE_CORE, "agent/pressure/governor/", "agent/host/conditions.ts"],
    isPure: true,
  })),
  { folder: "controller/", imports: ["src/"] },
  ...Object.entries(CONTROLLER_ROOMS).map(([room, below]) => ({
    folder: `controller/${room}/`,
    imports: ["src/", ...below.map((one) => `controller/${one}/`)],
  })),
  // An option is removed by deleting its folder and its line in the registry, so no other folder imports it.
  { folder: "controller/options/*/", imports: ["src/", ...BELOW_OPTIONS] },
  { folder: "controller/options/registry.ts", imports: ["src/", "controller/"] },
  { folder: "controller/main.ts", imports: ["src/", "controller/", FITNESS] },
  {
    folder: "controller/pods/workload/",
    imports: [...PURE_CORE, ...KUBE_TYPES, "controller/frame/service/path.ts"],
    isPure: true,
  },
  { folder: "server/", imports: ["src/", FITNESS] },
  { folder: "gateway/", imports: ["src/"] },
  { folder: "launchd/", imports: ["src/"] },
  ...["layout/", "plist/", "systemd/unit.ts"].map((part) => ({
    folder: `launchd/${part}`,
    imports: [...PURE_CORE, "launchd/"],
    isPure: true,
  })),
  { folder: "launchd/plan/", imports: [...PURE_CORE, "launchd/"], isPure: true },
  { folder: "web/", imports: [...PURE_CORE, "src/console/", "src/verdicts/", "src/gateway/", FITNESS] },
  { folder: "local/", imports: ["src/", "agent/", "controller/", "gateway/"] },
  {
    folder: "cli/",
    imports: ["src/", FITNESS, "agent/", "controller/", "server/", "gateway/", "launchd/", "local/"],
  },
  {
    folder: "scripts/",
    imports: [
      "src/",
      FITNESS,
      "agent/",
      "controller/",
      "server/",
      "gateway/",
      "launchd/",
      "local/",
      "cli/",
      "test/bed/",
      "test/fixtures/",
    ],
  },
];

/** The pure folders and files as patterns of `biome.json`; those inside a pure folder that have effects are excluded. */
export function purePatterns(): string[] {
  const pattern = ({ folder }: Layer) => (folder.endsWith("/") ? `${folder}**` : folder);
  const pure = LAYERS.filter(({ isPure }) => isPure === true);
  const inPure = LAYERS.filter(
    ({ folder, isPure }) => isPure !== true && pure.some((outer) => folder.startsWith(outer.folder)),
  );
  return [
    ...pure.map(pattern),
    // Plans of the controller import their neighbors, and are held to this part only.
    "**/plan/**",
    ...inPure.map((layer) => `!${pattern(layer)}`),
    ...["!**/*.test.ts", "!**/testing/**", "!**/fixtures/**"],
  ];
}

/**
 * The most lines of product code that each room may have (ts, tsx, css and mjs, without tests and fixtures). A feature that
 * needs more names the room that gives the lines; who makes a room lighter lowers its number.
 */
export const BUDGETS: Readonly<Record<string, number>> = {
  agent: 31_500,
  cli: 20_740,
  controller: 27_100,
  fitness: 6_060,
  gateway: 9_590,
  launchd: 3_280,
  local: 3_720,
  scripts: 15_270,
  server: 8_910,
  src: 39_330,
  web: 18_470,
};

/** The most folders of a room that may import each other in a circle, types counted. */
export const RING_LIMIT = 3;

/** Rooms with a larger ring, and its folders. Who makes a ring smaller lowers its number. */
export const RINGS_ABOVE_LIMIT: Readonly<Record<string, number>> = {
  launchd: 4,
  scripts: 5,
  src: 5,
};
