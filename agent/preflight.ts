/** What must hold before this machine can serve: its Host, an address, an engine, and the credential's rights. */
import { type ErrorCode, MetalbridgeError } from "../src/api/errors.ts";
import { NAMESPACE_HOSTS } from "../src/api/group.ts";
import { type Host, hostSchema } from "../src/api/host.ts";
import { ACCESS_REVIEWS } from "../src/kube/kinds.ts";
import type { AccessReview } from "../src/kube/objects.ts";
import type { KubeClient } from "../src/kube/types.ts";
import { hostTrouble, type ObservedHost } from "./registration/host-status.ts";

export interface Seen extends Pick<ObservedHost, "address" | "runtimes"> {
  /** Undefined if the cluster has no Host of this name. */
  readonly host: Host | undefined;
}

export interface Check {
  readonly what: "host" | "address" | "engine" | "rights";
  /** Absent when the check passed. */
  readonly code?: ErrorCode;
  readonly text: string;
}

/** docs/add-a-host.md has the same table for users; secrets are needed by some services only. */
const RIGHTS: readonly (readonly [group: string, resource: string, verbs: string, namespace?: string])[] = [
  ["metalbridge.dev", "inferencereplicas", "get list watch patch"],
  ["metalbridge.dev", "inferencereplicas/status", "patch"],
  ["metalbridge.dev", "hosts/status", "patch"],
  ["metalbridge.dev", "hosts", "list watch"],
  ["discovery.k8s.io", "endpointslices", "get list watch patch"],
  ["events.k8s.io", "events", "create patch"],
  ["coordination.k8s.io", "leases", "get create update", NAMESPACE_HOSTS],
];

/** Every check, in the order in which a new host meets them. */
export async function preflight(
  client: KubeClient,
  { hostName, register }: { readonly hostName: string; readonly register: boolean },
  seen: Seen,
): Promise<readonly Check[]> {
  const missing = await missingRights(client, register && seen.host === undefined);
  return [
    checkHost(hostName, register, seen.host),
    checkAddress(hostName, seen),
    checkEngine(seen),
    missing.length === 0
      ? { what: "rights", text: "the credential has every right the agent needs" }
      : { what: "rights", code: "ApiForbidden", text: `the credential lacks: ${missing.join(", ")}` },
  ];
}

/** One line per check. */
export function renderChecks(checks: readonly Check[]): string {
  return checks
    .map(({ what, code, text }) => {
      const result = code === undefined ? "ok" : "FAILED";
      return `${result.padEnd(8)}${what.padEnd(9)}${code === undefined ? text : `${code}: ${text}`}`;
    })
    .join("\n");
}

/** Throws PreflightFailed where a check has failed. */
export function requirePassed(checks: readonly Check[]): void {
  const failed = checks.filter(({ code }) => code !== undefined).map(({ what }) => what);
  if (failed.length > 0)
    throw new MetalbridgeError("PreflightFailed", `this host cannot serve yet: ${failed.join(", ")}`);
}

function checkHost(hostName: string, register: boolean, host: Host | undefined): Check {
  if (host !== undefined) return { what: "host", text: `Host ${hostName} is registered` };
  if (register) return { what: "host", text: `Host ${hostName} does not exist; --register will create it` };
  const text = `there is no Host ${hostName}; create it, or start the agent with --register`;
  return { what: "host", code: "HostNotRegistered", text };
}

function checkAddress(hostName: string, { address, host, runtimes }: Seen): Check {
  if (address.at === "up") return { what: "address", text: `engines will listen on ${address.address}` };
  const known = host ?? hostSchema.parse({ metadata: { name: hostName } });
  const trouble = hostTrouble(known, { address, runtimes });
  return { what: "address", code: address.code, text: trouble?.message ?? address.why };
}

function checkEngine({ runtimes, host, address }: Seen): Check {
  if (runtimes.found.length > 0) {
    const found = runtimes.found.map(({ name, version }) => `${name} ${version ?? ""}`.trim());
    return { what: "engine", text: found.join(", ") };
  }
  const known = host ?? hostSchema.parse({ metadata: { name: "unknown" } });
  const up = address.at === "up" ? address : ({ at: "up", address: "" } as const);
  const { code, message } = hostTrouble(known, { address: up, runtimes }) ?? {
    code: "RuntimeNotInstalled",
    message: "no engine was found on this host",
  };
  return { what: "engine", code, text: message };
}

async function missingRights(client: KubeClient, creates: boolean): Promise<readonly string[]> {
  const wanted = creates ? [...RIGHTS, ["metalbridge.dev", "hosts", "create"] as const] : RIGHTS;
  const answers = await Promise.all(
    wanted.flatMap(([group, path, verbs, namespace]) =>
      verbs.split(" ").map(async (verb) => {
        const [resource = "", subresource] = path.split("/");
        const resourceAttributes = {
          group,
          resource,
          verb,
          ...(subresource && { subresource }),
          ...(namespace && { namespace }),
        };
        const review: AccessReview = { metadata: { name: "" }, spec: { resourceAttributes } };
        const answer = await client.create(ACCESS_REVIEWS, review);
        return answer.ok && answer.value.status?.allowed === true ? [] : [`${verb} ${path}.${group}`];
      }),
    ),
  );
  return answers.flat();
}
