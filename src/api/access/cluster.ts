/** Roles, admission policies and flow control of a cluster, which are installed with the CRDs. */
import { flowControl } from "./flow-control.ts";
import { hostPolicies } from "./host-policies.ts";
import { joinPolicy } from "./join-group.ts";
import type { AccessObject } from "./policy.ts";
import { sharedRoles } from "./roles.ts";
import { dangerousPodsPolicy, userPolicies } from "./user-policies.ts";

export interface AccessOptions {
  /** Omits the policy against pods that can take over their node. */
  readonly allowDangerousPods?: boolean;
}

export function clusterAccess({ allowDangerousPods = false }: AccessOptions = {}): readonly AccessObject[] {
  return [
    ...sharedRoles(),
    ...hostPolicies(),
    ...joinPolicy(),
    ...userPolicies(),
    ...(allowDangerousPods ? [] : dangerousPodsPolicy()),
    ...flowControl(),
  ];
}
