/** The controller: wires connection, leader election and the leader's work. */
import { MANAGER_CONTROLLER, NAMESPACE_SYSTEM } from "../src/api/group.ts";
import { connect } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { createEventRecorder } from "../src/kube/events.ts";
import { runLeaderElection } from "../src/kube/leader.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import type { Clock, Log } from "../src/ports.ts";
import { type ControllerConfig, defaultIdentity } from "./config.ts";
import { startHealthServer } from "./health-server.ts";
import { type LeadOptions, lead } from "./lead.ts";
import { createControllerMetrics } from "./metrics.ts";
import { ensureNamespaces } from "./namespaces.ts";

export interface ControllerOptions {
  readonly config: ControllerConfig;
  readonly log: Log;
  /** Ends everything in good order: the Lease is given back. */
  readonly signal: AbortSignal;
  readonly clock?: Clock;
  readonly createModelPass?: LeadOptions["createModelPass"];
  /** Called with the port of /healthz once it listens. */
  readonly onListening?: (port: number) => void;
  /** Called whenever this process leads and every copy is complete. */
  readonly onWorking?: () => void;
}

const USER_AGENT = "metalbridge-controller";

/** Resolves after `signal` was aborted and the Lease is given back. Rejects where it cannot begin: kubeconfig, port. */
export async function runController(options: ControllerOptions): Promise<void> {
  const { config, log, signal, clock = systemClock } = options;
  const identity = config.identity ?? defaultIdentity();
  const metrics = createControllerMetrics();
  const connection = await connect({
    kubeconfigPath: config.kubeconfig,
    context: config.context,
    userAgent: USER_AGENT,
  });
  // Outlives the signal: the Lease is given back after it.
  const client = createClient(connection, { userAgent: USER_AGENT });
  const record = createEventRecorder({
    client,
    clock,
    log,
    signal,
    reportingController: `metalbridge.dev/${MANAGER_CONTROLLER}`,
    reportingInstance: identity,
  });
  let waitingFor: string | undefined = "leadership";
  try {
    const health = {
      address: config.healthAddress,
      port: config.healthPort,
      registry: metrics.registry,
      signal,
    };
    const port = await startHealthServer({ ...health, notReady: () => waitingFor });
    options.onListening?.(port);
    log.info({ server: connection.server, identity, healthPort: port }, "controller started");
    await ensureNamespaces({ client, clock, log, signal });
    await runLeaderElection({
      client,
      clock,
      log,
      signal,
      name: MANAGER_CONTROLLER,
      namespace: NAMESPACE_SYSTEM,
      identity,
      durationSeconds: config.leaseDurationSeconds,
      renewDeadlineMs: config.leaseRenewDeadlineSeconds * 1000,
      retryMs: config.leaseRetrySeconds * 1000,
      onLead: async (leading) => {
        metrics.setLeading(true);
        waitingFor = "the first lists (are the CRDs installed?)";
        const onWorking = () => {
          waitingFor = undefined;
          log.info({}, "working");
          options.onWorking?.();
        };
        const { createModelPass } = options;
        await lead({
          connection,
          client,
          clock,
          log,
          record,
          metrics,
          signal: leading,
          createModelPass,
          onWorking,
        });
      },
      onLost: () => {
        metrics.setLeading(false);
        waitingFor = "leadership";
      },
    });
  } finally {
    connection.close();
  }
}
