/** The message for a reader who lacks a right, and who can give it: one wording for the stream, the proxy and all buttons. Pure. */
import { GROUP } from "../api/group.ts";
import type { AccessQuestion, ApiRefusal } from "./protocol.ts";

const OPERATOR_ROLES = "(examples/rbac/operator.yaml)";
const READS = new Set(["get", "list", "watch"]);
const NAMESPACED = new Set(["models", "inferenceservices", "inferencereplicas", "backendruntimes"]);
/** Resources of Kubernetes that its own role view may read. */
const IN_VIEW = new Set(["pods", "events", "configmaps", "controllerrevisions"]);

export function missingRight(question: AccessQuestion): Required<ApiRefusal> {
  const role = roleWith(question);
  const where = textOfPlace(question);
  return {
    code: "ApiForbidden",
    message: `You may not ${textOfRight(question)}.`,
    remedy:
      role === undefined
        ? `Ask an administrator of the cluster for a role with this right${where}.`
        : `Ask an administrator of the cluster to bind the ClusterRole ${role} to your account${where}.`,
  };
}

/** By `metalbridge console`, which watches one namespace with the reader's own credentials: the reader may have rights to others. */
export function notWatched(
  group: string,
  resource: string,
  namespace: string | undefined,
): Required<ApiRefusal> {
  const refusal = missingRight({ verb: "list", group, resource });
  if (namespace === undefined) return refusal;
  return { ...refusal, remedy: `Show its namespace instead: \`metalbridge console -n ${namespace}\`` };
}

/** Such as `list models in namespace team-a`. */
export function textOfRight(question: AccessQuestion): string {
  const { verb, resource, subresource } = question;
  const what = subresource === undefined ? resource : `${resource}/${subresource}`;
  return `${verb} ${what}${textOfPlace(question)}`;
}

function textOfPlace({ namespace }: AccessQuestion): string {
  return namespace === undefined ? "" : ` in namespace ${namespace}`;
}

/** The smallest role that users are given and that has the right; undefined if only an administrator's has it. */
function roleWith({ verb, group, resource, namespace }: AccessQuestion): string | undefined {
  const isRead = READS.has(verb);
  if (group !== GROUP) {
    if (isRead && IN_VIEW.has(resource)) return "view";
    return isRead && resource === "nodes" ? `metalbridge-viewer ${OPERATOR_ROLES}` : undefined;
  }
  if (resource === "density") return "metalbridge-density-reader";
  if (NAMESPACED.has(resource)) return isRead ? "view" : "edit";
  if (resource !== "hosts" || namespace !== undefined) return undefined;
  if (isRead) return `metalbridge-viewer ${OPERATOR_ROLES}`;
  return verb === "patch" ? `metalbridge-operator ${OPERATOR_ROLES}` : undefined;
}

const BY_API_SERVER =
  /cannot (?<verb>\w+) resource "(?<resource>[^"/]+)(?:\/(?<subresource>[^"]+))?" in API group "(?<group>[^"]*)"(?: in the namespace "(?<namespace>[^"]+)")?/;
const BY_DENSITY = /may not (?<verb>\w+) (?<resource>density)\/(?<subresource>\S+) of (?<group>\S+)/;

/** The right that the API server or the density API has found missing; undefined for another refusal, such as by a policy. */
export function deniedRight(message: string): AccessQuestion | undefined {
  const { groups } = BY_API_SERVER.exec(message) ?? BY_DENSITY.exec(message) ?? {};
  if (groups === undefined) return undefined;
  const { verb = "", group = "", resource = "", subresource, namespace } = groups;
  return { verb, group, resource, subresource, namespace };
}
