/** A group of machines that may request to become hosts: its account, the rights of its token, and its admission policy. */
import { z } from "zod";
import { parseJson } from "../../util/parse-json.ts";
import { ANNOTATION_JOIN_GROUP, ANNOTATION_JOINED, GROUP, NAMESPACE_JOIN, VERSION } from "../group.ts";
import type { ObjectMeta } from "../metadata.ts";
import { GUARDED_METADATA, SMALL_FIELDS } from "./host-policies.ts";
import { type AccessObject, celEmpty, policyObjects, WRITES } from "./policy.ts";

/** User name of a group's account without the name of the group. */
export const JOIN_ACCOUNT_PREFIX = `system:serviceaccount:${NAMESPACE_JOIN}:`;
/** Maximum number of hosts of a group, which are listed in an annotation of its account. */
export const JOIN_LIMIT_MAX = 1_000;
/** Maximum number of existing requests of all groups. */
export const JOIN_REQUESTS_MAX = 1_024;
export const JOIN_POLICY = "metalbridge-join-requests";
const ACCOUNT = "metalbridge-join";

const joinGroupSchema = z.strictObject({
  limit: z.int().min(1).max(JOIN_LIMIT_MAX),
  expiresAt: z.iso.datetime(),
  approve: z.enum(["auto", "manual"]),
  addresses: z.array(z.string()),
  namePattern: z.string(),
});
const joinedSchema = z.record(
  z.string(),
  z.strictObject({ request: z.string(), machineId: z.string().optional() }),
);

export type JoinGroup = z.output<typeof joinGroupSchema>;
/** The admitted request and the machine, by host. An entry stays after its host has joined. */
export type JoinedHosts = z.output<typeof joinedSchema>;

/** Undefined if the account has no group, or has invalid annotations. */
export function readJoinGroup({ annotations = {} }: ObjectMeta) {
  const group = joinGroupSchema.safeParse(parseJson(annotations[ANNOTATION_JOIN_GROUP] ?? ""));
  const joined = joinedSchema.safeParse(parseJson(annotations[ANNOTATION_JOINED] ?? "{}"));
  return group.success && joined.success ? { group: group.data, joined: joined.data } : undefined;
}

/** Matches a shell pattern: `*` matches any text, `?` one character. */
export function matchesPattern(name: string, pattern: string): boolean {
  const source = pattern
    .replaceAll(/[^*?]/g, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`)
    .replaceAll(/\*+/g, ".*")
    .replaceAll("?", ".");
  return new RegExp(`^${source}$`, "u").test(name);
}

/**
 * Objects that all groups share, in the order in which they are created. Requests of an account without the annotation of a
 * group are never admitted.
 */
export function joinAccess(): readonly AccessObject[] {
  const metadata = { name: ACCOUNT, namespace: NAMESPACE_JOIN };
  const rbac = "rbac.authorization.k8s.io";
  const rule = { apiGroups: [GROUP], resources: ["hostjoinrequests"], verbs: ["create", "get"] };
  const count = { [`count/hostjoinrequests.${GROUP}`]: String(JOIN_REQUESTS_MAX) };
  const objects: readonly Record<string, unknown>[] = [
    { apiVersion: "v1", kind: "ResourceQuota", metadata, spec: { hard: count } },
    { apiVersion: `${rbac}/v1`, kind: "Role", metadata, rules: [rule] },
    {
      apiVersion: `${rbac}/v1`,
      kind: "RoleBinding",
      metadata,
      subjects: [{ apiGroup: rbac, kind: "Group", name: `system:serviceaccounts:${NAMESPACE_JOIN}` }],
      roleRef: { apiGroup: rbac, kind: "Role", name: ACCOUNT },
    },
  ];
  return objects as unknown as readonly AccessObject[];
}

/** Service account of a group. `host token revoke` deletes it together with all requests of the group. */
export function joinAccount(name: string, group: JoinGroup) {
  const annotations = { [ANNOTATION_JOIN_GROUP]: JSON.stringify(group) };
  return { metadata: { name, namespace: NAMESPACE_JOIN, annotations } };
}

/** The account of a group may only create small, unanswered requests for that group. */
export function joinPolicy(): readonly AccessObject[] {
  return policyObjects({
    name: JOIN_POLICY,
    on: [GROUP, VERSION, "hostjoinrequests", "hostjoinrequests/status"],
    operations: WRITES,
    of: {
      name: "account-of-a-group",
      expression: `request.userInfo.username.startsWith('${JOIN_ACCOUNT_PREFIX}')`,
    },
    validations: [
      {
        expression: `request.operation == 'CREATE' && request.namespace == '${NAMESPACE_JOIN}'`,
        message: "the token of a group may only create HostJoinRequests",
      },
      {
        expression:
          "request.operation != 'CREATE' || object.spec.group == request.userInfo.username.split(':')[3]",
        message: "the token of a group may only request to join its own group",
      },
      {
        expression:
          "request.operation != 'CREATE' || (!has(object.spec.approval) && !has(object.spec.approvalNote))",
        message: "the token of a group may approve nothing",
      },
      {
        expression: `request.operation != 'CREATE' || (${celEmpty(...GUARDED_METADATA)} && ${SMALL_FIELDS})`,
        message:
          "a HostJoinRequest has no labels, annotations, owner references, finalizers or forged managedFields",
      },
    ],
  });
}
