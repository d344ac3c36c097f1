/** A replica runner on real parts, wired as the agent wires it, for tests and for a child process that tests may kill. */
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createEndpoints } from "../../agent/endpoints/endpoints.ts";
import {
  createEngineDrivers,
  engineEnvironment,
  type RegistryOptions,
} from "../../agent/engines/registry.ts";
import { createGateRoutes } from "../../agent/gate/gate-routes.ts";
import { createHostReader } from "../../agent/host/reader.ts";
import { createInstances, ENGINES_FOLDER, GATE_FOLDER } from "../../agent/instances/instances.ts";
import type {
  ReplicaCluster,
  ReplicaRunner,
  ReplicaRunnerPorts,
} from "../../agent/replicas/context/ports.ts";
import { createReplicaRunner } from "../../agent/replicas/runner.ts";
import { openStore } from "../../agent/store/store.ts";
import { createTransportIdentity, type TransportIdentity } from "../../agent/transport/host-transport.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { connect } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { createEventRecorder } from "../../src/kube/event/events.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import { hasRecord } from "../../src/supervise/run-directory.ts";
import { quietLog } from "../cluster/quiet-log.ts";
import { findLlamaServer } from "../fixtures/llama-server.ts";

export interface Agent {
  readonly runner: ReplicaRunner;
  readonly transport: TransportIdentity;
  /** Stops supervision as a crash would: nothing is shut down in order. */
  readonly end: () => Promise<void>;
  /** Relists replicas and slices, as an agent does once the API server is back. */
  readonly relist: () => void;
}

/** Where an agent lives; two agents at one place follow one another. */
export interface AgentPlace {
  readonly root: string;
  readonly kubeconfig: string;
  readonly hostName: string;
  readonly address: string;
  /** First and last for engines. */
  readonly ports: readonly [number, number];
}

export type AgentChanges = Omit<Partial<ReplicaRunnerPorts>, "drivers" | "processes" | "transport"> & {
  readonly cluster?: Partial<ReplicaCluster>;
  readonly llamaServer?: string;
  readonly footprintBytes?: (pid: number) => Promise<number | undefined>;
  readonly drivers?: (options: RegistryOptions) => ReplicaRunnerPorts["drivers"];
  /** In place of the gate's own. */
  readonly gateProgram?: string;
};

export async function startAgentAt(
  place: AgentPlace,
  {
    llamaServer,
    footprintBytes,
    drivers = createEngineDrivers,
    gateProgram,
    cluster,
    ...changes
  }: AgentChanges = {},
): Promise<Agent> {
  const { root, kubeconfig, hostName, address, ports } = place;
  const connection = await connect({ kubeconfigPath: kubeconfig });
  const client = createClient(connection);
  const end = new AbortController();
  const { signal } = end;
  const log = quietLog;
  const base = { connection, client, clock: systemClock, log, signal };
  const store = await openStore({
    dir: join(root, "store"),
    clock: systemClock,
    log,
    allowedRoots: [root],
    hfEndpoint: "http://127.0.0.1:9",
    reserveBytes: 0,
    allowLoopback: true,
    limits: { attempts: 1, firstBackoffMs: 10 },
  });
  const stateDir = join(root, "state");
  const instances = createInstances({
    stateDir,
    clock: changes.clock ?? systemClock,
    log,
    footprintBytes: footprintBytes ?? createHostReader("linux", async () => undefined).footprintBytes,
  });
  const gate = createGateRoutes({
    processes: instances.processes,
    clock: changes.clock ?? systemClock,
    log,
    folder: join(stateDir, GATE_FOLDER),
    tempDir: tmpdir(),
    release: "test",
    env: {},
    ...(gateProgram === undefined ? {} : { program: gateProgram }),
    mayRun: (uid) => hasRecord(join(stateDir, ENGINES_FOLDER, uid)),
  });
  const transport = createTransportIdentity({
    stateDir,
    hostName,
    clock: systemClock,
    log,
    signal,
    onChange: () => {},
    onReplaced: () => gate.reload(),
  });
  const memoryBudget = () => 1024 ** 4;
  const config = { llamaServer: [llamaServer ?? findLlamaServer() ?? "/nowhere"] };
  const runner = createReplicaRunner({
    stateDir,
    clock: systemClock,
    log,
    store,
    drivers: drivers({
      env: engineEnvironment(process.env),
      config,
      instances,
      memoryBudget,
      gate: { routes: gate, clock: changes.clock ?? systemClock },
    }),
    processes: instances.processes,
    transport,
    portRange: ports,
    address: () => address,
    memoryBudget,
    unclaimedBytes: instances.daemons.unclaimedBytes,
    ...changes,
  });
  const reporter = { reportingController: "test", reportingInstance: "test" };
  const endpoints = createEndpoints({
    ...base,
    hostName,
    fingerprint: () => transport.fingerprint(),
    onChange: (key) => runner.sliceChanged(key),
  });
  const recorder = createEventRecorder({ client, clock: systemClock, signal, ...reporter });
  runner.connect({ client, recorder, endpoints, ...cluster });
  await runner.adopt();
  await Promise.all([instances.daemons.stopUnused(() => runner.knowsAllEngines()), gate.begin()]);
  const reflector = startReflector<InferenceReplica>({
    ...base,
    kind: INFERENCE_REPLICAS,
    fieldSelector: `spec.template.hostName=${hostName}`,
    onChange: (_key, object, before) => {
      const uid = (object ?? before)?.metadata.uid ?? "";
      runner.setDesired(uid, object);
    },
    onListed: () => runner.listed(reflector.list()),
  });
  const agent: Agent = {
    runner,
    transport,
    relist: () => {
      reflector.relist();
      endpoints.watch.relist();
    },
    end: async () => {
      end.abort();
      await runner.stop();
      await gate.settled();
      gate.close();
    },
  };
  return agent;
}
