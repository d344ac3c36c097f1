/** Everything about access that a cluster gets once, beside the definitions. */
import { flowControl } from "./flow-control.ts";
import { hostPolicies } from "./host-policies.ts";
import { joinPolicy } from "./join-group.ts";
import type { AccessObject } from "./policy.ts";
import { sharedRoles } from "./roles.ts";
import { dangerousPodsPolicy, userPolicies } from "./user-policies.ts";

export interface AccessOptions {
  /** Without the policy against pods that can take over their node. */
  readonly allowDangerousPods?: boolean;
}

export function clusterAccess({ allowDangerousPods = false }: AccessOptions = {}): readonly AccessObject[] {
  const dangerousPods = allowDangerousPods ? [] : dangerousPodsPolicy();
  return [
    ...sharedRoles(),
    ...hostPolicies(),
    ...joinPolicy(),
    ...userPolicies(),
    ...dangerousPods,
    ...flowControl(),
  ];
}
