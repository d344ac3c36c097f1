/** A Mac becomes a host, is upgraded under load, and gets its version back after a bad one: on the replay of launchd. */
import { existsSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { queryAgent } from "../../../launchd/agent-socket.ts";
import { socketOf } from "../../../launchd/layout/layout.ts";
import { ONE_THREAD } from "../../../test/bed/agent.ts";
import { startDoctorReplay } from "../../../test/bed/doctor-replay.ts";
import { kubectlFor } from "../../../test/bed/kubectl.ts";
import { type MacHost, openMacHost } from "../../../test/bed/launchd/mac-host.ts";
import {
  archiveOf,
  type Machine,
  PATIENT,
  prepareReleases,
  type Ran,
  startMachine,
} from "../../../test/bed/launchd/machine.ts";
import { processesNaming } from "../../../test/bed/leftovers.ts";
import { startNodeNetwork } from "../../../test/bed/node-network.ts";
import { programIn } from "../../../test/bed/release.ts";
import { M4_MAX } from "../../../test/bed/replay.ts";
import { startFleet } from "../../../test/bed/test-fleet.ts";
import { type BackgroundLoad, failedRequests, REQUESTS_PER_S, startLoad } from "../beds/load.ts";
import { measured, type ScenarioResult } from "../beds/measurement.ts";
import { NAMESPACE, openPlane, type Plane } from "../beds/plane.ts";

const INSTALLS = 3;
const UPGRADES = 5;
const DOCTORS = 3;
const SERVICE = "bench";
const POLL_MS = 5;

/** What does not start, and what starts and never serves: the second takes the whole time that a version has. */
const BAD_PROGRAMS = ["process.exit(3);", "setInterval(() => {}, 1000);"];

interface Bed {
  readonly machine: Machine;
  readonly host: MacHost;
  /** Two versions of this code. */
  readonly releases: readonly [string, string];
  readonly badArchives: readonly string[];
  /** Resolves with the first response. */
  readonly startLoad: () => Promise<BackgroundLoad>;
}

export async function measureInstall(): Promise<readonly ScenarioResult[]> {
  await using plane = await openPlane();
  const bed = await openBed(plane);
  const { load, samples } = await install(bed);
  const away: number[] = [];
  for (let round = 0; round < UPGRADES; round += 1)
    away.push(await awayDuring(bed, () => upgrade(bed, bed.releases[(round + 1) % 2] ?? "")));
  const back: number[] = [];
  for (const archive of bed.badArchives) back.push(await rollBack(bed, archive));
  const responses = await load.stop();
  const name = `upgrade and rollback of an installed agent, ${REQUESTS_PER_S} requests/s`;
  return [
    measured("install and join → first response", "ms", samples, { max: 15_000 }),
    measured("upgrade of an installed agent: without an agent", "ms", away, { max: 1_000 }),
    failedRequests(name, responses),
    measured(`${name}: all requests`, "requests", [responses.length]),
    measured("upgrade to a bad version → the old one serves", "ms", back, { max: 30_000 }),
    measured("doctor, as on a Mac", "ms", await examine(bed), { max: 5_000 }),
  ];
}

/** Controller, Model and service wait for a host; nothing is installed. */
async function openBed(plane: Plane): Promise<Bed> {
  const { kubeconfig } = plane.controlPlane;
  const releases = plane.use(await prepareReleases());
  const [one, two] = [releases.make("1.0.0"), releases.make("1.1.0")];
  const kubectl = kubectlFor(kubeconfig);
  const network = plane.use(await startNodeNetwork({ kubeconfig }));
  const { modelsDir } = plane.use(await startFleet({ kubeconfig, agents: [], program: programIn(one) }));
  const machine = plane.use(await startMachine({ msPerSecond: 1_000 }));
  // Before the machine is taken down, which ends the agent alone: its engines outlive it.
  plane.atEnd(() => clear(machine));
  // Available once an agent has read the header.
  plane.createModel(modelsDir).catch(() => undefined);
  await plane.createService(SERVICE, { parallelSlots: 4, contextSize: 1_024, extraArgs: ONE_THREAD });
  await kubectl(["wait", "--for=create", `service/${SERVICE}`, "-n", NAMESPACE, "--timeout=60s"]);
  const url = await plane.urlOf(SERVICE);
  const address = network.hostAddress;
  return {
    machine,
    host: openMacHost({ machine, kubeconfig, name: "mac-1", address, modelsDir, release: one }),
    releases: [one, two],
    badArchives: BAD_PROGRAMS.map((program, index) =>
      archiveOf(releases.make(`2.0.${index}`, { program }), machine.at(`bad-${index}.tar.gz`)),
    ),
    startLoad: () => startLoad(network.namespace, url),
  };
}

/** Clients ask from the beginning. The last installation stays, and so does its load. */
async function install(
  bed: Bed,
): Promise<{ readonly load: BackgroundLoad; readonly samples: readonly number[] }> {
  const { host, machine } = bed;
  const samples: number[] = [];
  for (;;) {
    const added = must(await host.add());
    const succeeded = bed.startLoad();
    const from = performance.now();
    must(await host.install());
    must(await host.join(added));
    const load = await succeeded;
    samples.push(performance.now() - from);
    if (samples.length === INSTALLS) return { load, samples };
    await load.stop();
    must(await machine.run(machine.installed, ["uninstall", "--purge", "--stop-engines"]));
    must(await host.remove());
  }
}

async function upgrade({ machine }: Bed, release: string): Promise<void> {
  must(await machine.run(release, ["upgrade", "--allow-downgrade", ...PATIENT]));
}

/** From the last response of the agent that serves to the first one of the next that does (ms). */
async function awayDuring({ host }: Bed, change: () => Promise<void>): Promise<number> {
  let longest = 0;
  let isOver = false;
  const watch = async (): Promise<void> => {
    for (let last = performance.now(); !isOver; await pause(POLL_MS)) {
      const agent = await queryAgent(socketOf(host));
      if (agent.at !== "answers" || agent.phase !== "serving") continue;
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    }
  };
  const watching = watch();
  await change();
  isOver = true;
  await watching;
  return longest;
}

/** With the time that a version has by default. */
async function rollBack({ machine, host }: Bed, archive: string): Promise<number> {
  const from = performance.now();
  const { err } = await machine.run(machine.installed, ["upgrade", "--archive", archive]);
  const took = performance.now() - from;
  const agent = await queryAgent(socketOf(host));
  if (!err.startsWith("UpgradeRolledBack") || agent.at !== "answers" || agent.phase !== "serving")
    throw new Error(`not rolled back: ${JSON.stringify(agent)} ${err}`);
  return took;
}

/** On the tools of a recorded Mac; what it finds there is another matter. */
async function examine({ host }: Bed): Promise<readonly number[]> {
  await using mac = await startDoctorReplay(M4_MAX);
  const samples: number[] = [];
  for (let round = 0; round < DOCTORS; round += 1) {
    const from = performance.now();
    const { out } = await host.doctor(["--platform", "darwin"], {
      PATH: `${mac.path}:/usr/sbin:/usr/bin:/bin`,
    });
    samples.push(performance.now() - from);
    if (!out.includes(" passed, ")) throw new Error(`doctor did not report: ${out}`);
  }
  return samples;
}

/** Also after a failure. Throws where something of the machine still runs: a bench that leaves engines is no success. */
async function clear(machine: Machine): Promise<void> {
  const ran = existsSync(machine.installed)
    ? await machine.run(machine.installed, ["uninstall", "--purge", "--stop-engines"])
    : undefined;
  const left = processesNaming(machine.root);
  if (left.length > 0) throw new Error(`still running: ${left.join("; ")} ${ran?.err ?? ""}`);
}

function must(ran: Ran): Ran {
  if (ran.code !== 0) throw new Error(`exit code ${ran.code}: ${ran.err}${ran.out}`);
  return ran;
}
