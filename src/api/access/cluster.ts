/** Everything about access that a cluster gets once, beside the definitions. */
import { flowControl } from "./flow-control.ts";
import { hostPolicies } from "./host-policies.ts";
import type { AccessObject } from "./policy.ts";
import { sharedRoles } from "./roles.ts";
import { dangerousPodsPolicy, userPolicies } from "./user-policies.ts";

export function clusterAccess(): readonly AccessObject[] {
  return [...sharedRoles(), ...hostPolicies(), ...userPolicies(), ...dangerousPodsPolicy(), ...flowControl()];
}
