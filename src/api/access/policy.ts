/** Renders admission policies, and CEL expressions that several policies share. */

export interface AccessObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string } & Record<string, unknown>;
}

interface Validation {
  readonly expression: string;
  readonly message: string;
  /** Replaces the message, to name the rejected fields. */
  readonly messageExpression?: string;
}

export interface Policy {
  readonly name: string;
  readonly on: readonly [group: string, version: string, ...resources: string[]];
  readonly operations: readonly ("CREATE" | "UPDATE" | "DELETE")[];
  /** Selects the requests that the policy validates; absent: all. */
  readonly of?: { readonly name: string; readonly expression: string };
  readonly variables?: readonly { readonly name: string; readonly expression: string }[];
  readonly validations: readonly Validation[];
}

const ADMISSION = "admissionregistration.k8s.io/v1";

/** A policy and its binding. */
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
        // Includes the API server's defaults: the field has one owner as a whole, so only managers that apply the same value can share it.
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

/** Field by its path; null if absent. */
export function celField(object: string, path: string): string {
  return `${object}.?${path.split(".").join(".?")}.orValue(null)`;
}

/** True if these fields of metadata have not changed. */
export function celUnchanged(...fields: readonly string[]): string {
  return fields
    .map(
      (field) =>
        `${celField("object", `metadata.${field}`)} == ${celField("oldObject", `metadata.${field}`)}`,
    )
    .join(" && ");
}

/** True if these fields of metadata are absent or empty. */
export function celEmpty(...fields: readonly string[]): string {
  return fields.map((field) => `size(object.metadata.?${field}.orValue([])) == 0`).join(" && ");
}
