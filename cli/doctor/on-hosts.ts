/** `metalbridge doctor --host`: gets reports from other machines, whose agents run doctor with their own rights. */
import type { IncomingMessage } from "node:http";
import { z } from "zod";
import { DOCTOR_ACCOUNT } from "../../src/api/access/remote.ts";
import { MetalbridgeError, remedyOf } from "../../src/api/errors.ts";
import { NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import type { CheckResult } from "../../src/doctor/checks/check.ts";
import { readApiBody } from "../../src/kube/client/transport.ts";
import { requestHost } from "../../src/kube/remote/request.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { findObject, listAll } from "../cluster/find.ts";
import type { ClusterFlags } from "../cluster/flags.ts";
import { forEachConcurrently } from "../program/concurrently.ts";
import { listenForStop } from "../program/stop-signals.ts";
import type { DoctorReport, HostReport } from "./render.ts";

export interface OnHosts {
  /** All hosts if absent. */
  readonly hosts: readonly string[] | undefined;
  readonly direct: boolean;
}

const MAX_BYTES = 4 << 20;
/** Longer than the 30 s after which an agent kills doctor. */
const ANSWER_MS = 45_000;

const text = z.string().max(10_000);
const statuses = ["ok", "error", "warning", "note", "unknown", "notApplicable"] as const;
const reportSchema = z.object({
  platform: text,
  tookMs: z.number(),
  inventory: z.looseObject({}).default({}),
  results: z
    .array(
      z.object({
        code: text,
        check: text,
        status: z.enum(statuses),
        finding: text,
        reason: text,
        fix: z.object({ summary: text, command: text.optional() }).optional(),
      }),
    )
    .max(1_000),
});

/** Reports in the order of `hosts`. Throws HostNotFound. */
export function doctorOnHosts(
  flags: ClusterFlags,
  { hosts, direct }: OnHosts,
): Promise<readonly HostReport[]> {
  return withCluster("doctor", flags, async (cluster) => {
    const selected =
      hosts === undefined
        ? await listAll(cluster, HOSTS)
        : await Promise.all(hosts.map((name) => findObject(cluster, HOSTS, name)));
    const { signal } = listenForStop();
    const reports: HostReport[] = [];
    await forEachConcurrently(selected.entries(), async ([index, host]) => {
      reports[index] = await reportOf(cluster, host, direct, signal);
    });
    return reports;
  });
}

async function reportOf(
  cluster: Cluster,
  host: Host,
  direct: boolean,
  signal: AbortSignal,
): Promise<HostReport> {
  const { name } = host.metadata;
  try {
    return { host: name, report: await requestReport(cluster, host, direct, signal) };
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    return { host: name, error };
  }
}

async function requestReport(
  cluster: Cluster,
  host: Host,
  direct: boolean,
  signal: AbortSignal,
): Promise<DoctorReport> {
  const { metadata, status } = host;
  if (status?.remote?.doctor !== true) {
    if (status?.info === undefined)
      throw new MetalbridgeError("HostNeverSeen", `the agent of host ${metadata.name} has not reported yet`);
    const agent = `agent ${status.info.agentVersion ?? "of unknown version"}`;
    throw new MetalbridgeError(
      "RemoteAccessOff",
      `host ${metadata.name} (${agent}) offers no remote doctor`,
      remedyOf("RemoteAccessOff", { host: metadata.name }),
    );
  }
  // A limit for the whole report: a host that sends it byte by byte must not delay the reports of the others.
  const reportSignal = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]);
  const answer = await requestHost({
    connection: cluster.connection,
    host,
    direct,
    signal: reportSignal,
    timeoutMs: ANSWER_MS,
    path: "/v1/doctor",
    account: { namespace: NAMESPACE_SYSTEM, name: DOCTOR_ACCOUNT },
    role: "metalbridge-host-doctor",
  });
  const { platform, tookMs, results, inventory } = await readReport(answer, metadata.name);
  return {
    host: metadata.name,
    platform,
    tookMs,
    inventory,
    fixed: [],
    machine: "checked by its agent, with the rights of the agent's account",
    // An unknown code of a newer agent is printed unchanged.
    results: results as readonly CheckResult[],
  };
}

/** Throws RemoteHostUnreachable for a report that is cut off, late or too long, and RemoteRequestRefused. */
export async function readReport(
  answer: IncomingMessage,
  host: string,
): Promise<z.output<typeof reportSchema>> {
  const body = await readApiBody(answer, MAX_BYTES).catch((cause: unknown) => {
    const why = errorMessage(cause);
    const message = `host ${host} sent an incomplete doctor report: ${why}`;
    throw new MetalbridgeError(
      "RemoteHostUnreachable",
      message,
      remedyOf("RemoteHostUnreachable", { host }),
      {
        cause,
      },
    );
  });
  return parseReport(body, host);
}

/** Throws RemoteRequestRefused. */
export function parseReport(body: string, host: string): z.output<typeof reportSchema> {
  try {
    return reportSchema.parse(JSON.parse(body));
  } catch (cause) {
    const message = `host ${host} sent an invalid doctor report: its agent may have another version`;
    throw new MetalbridgeError("RemoteRequestRefused", message, undefined, { cause });
  }
}
