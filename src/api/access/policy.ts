/** From a policy as it is written down here to the objects of the API server, and expressions that several policies share. */

export interface AccessObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string } & Record<string, unknown>;
}

interface Validation {
  readonly expression: string;
  readonly message: string;
  /** In place of the message, where the expression can name what was found. */
  readonly messageExpression?: string;
}

export interface Policy {
  readonly name: string;
  readonly on: readonly [group: string, version: string, ...resources: string[]];
  readonly operations: readonly ("CREATE" | "UPDATE" | "DELETE")[];
  /** Whose requests it judges; absent: everyone's. */
  readonly of?: { readonly name: string; readonly expression: string };
  readonly variables?: readonly { readonly name: string; readonly expression: string }[];
  readonly validations: readonly Validation[];
}

const ADMISSION = "admissionregistration.k8s.io/v1";

/** The policy and its binding. */
export function policyObjects(policy: Policy): readonly AccessObject[] {
  const { name, on, operations, of, variables, validations } = policy;
  const [group, version, ...resources] = on;
  return [
    {
      apiVersion: ADMISSION,
      kind: "ValidatingAdmissionPolicy",
      metadata: { name },
      spec: {
        failurePolicy: "Fail",
        // With the API server's defaults: managers who apply the same share the field, which has one owner as a whole.
        matchConstraints: {
          matchPolicy: "Equivalent",
          namespaceSelector: {},
          objectSelector: {},
          resourceRules: [
            {
              apiGroups: [group],
              apiVersions: [version],
              operations: [...operations],
              resources,
              scope: "*",
            },
          ],
        },
        ...(of && { matchConditions: [of] }),
        ...(variables && { variables }),
        validations: validations.map((validation) => ({ ...validation, reason: "Forbidden" })),
      },
    } as AccessObject,
    {
      apiVersion: ADMISSION,
      kind: "ValidatingAdmissionPolicyBinding",
      metadata: { name },
      spec: {
        policyName: name,
        validationActions: ["Deny"],
      },
    } as AccessObject,
  ];
}

export const WRITES = ["CREATE", "UPDATE", "DELETE"] as const;
export const IS_STATUS = "request.?subResource.orValue('') == 'status'";

/** A field of metadata, spec or status by its path; null where it is absent. */
export function celField(object: string, path: string): string {
  return `${object}.?${path.split(".").join(".?")}.orValue(null)`;
}

/** These fields of metadata are as they were. */
export function celUnchanged(...fields: readonly string[]): string {
  return fields
    .map(
      (field) =>
        `${celField("object", `metadata.${field}`)} == ${celField("oldObject", `metadata.${field}`)}`,
    )
    .join(" && ");
}

/** These fields of metadata are absent or empty. */
export function celEmpty(...fields: readonly string[]): string {
  return fields.map((field) => `size(object.metadata.?${field}.orValue([])) == 0`).join(" && ");
}
