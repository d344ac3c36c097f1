/** Limits how much of the API server the accounts of hosts can use, so that no host can starve other clients. */
import { NAMESPACE_HOSTS } from "../group.ts";
import type { AccessObject } from "./policy.ts";

const FLOW_CONTROL = "flowcontrol.apiserver.k8s.io/v1";
const NAME = "metalbridge-hosts";
/** Lower, and so matched earlier, than the API server's own `service-accounts` (9000), but higher than those of the system. */
const PRECEDENCE = 8_500;

/** A separate priority level that borrows nothing from others, with queues per host. */
export function flowControl(): readonly AccessObject[] {
  return [
    {
      apiVersion: FLOW_CONTROL,
      kind: "PriorityLevelConfiguration",
      metadata: { name: NAME },
      spec: {
        type: "Limited",
        limited: {
          nominalConcurrencyShares: 20,
          lendablePercent: 50,
          borrowingLimitPercent: 0,
          limitResponse: {
            type: "Queue",
            queuing: { queues: 64, handSize: 6, queueLengthLimit: 50 },
          },
        },
      },
    } as AccessObject,
    {
      apiVersion: FLOW_CONTROL,
      kind: "FlowSchema",
      metadata: { name: NAME },
      spec: {
        priorityLevelConfiguration: { name: NAME },
        matchingPrecedence: PRECEDENCE,
        distinguisherMethod: { type: "ByUser" },
        rules: [
          {
            subjects: [{ kind: "Group", group: { name: `system:serviceaccounts:${NAMESPACE_HOSTS}` } }],
            resourceRules: [
              { verbs: ["*"], apiGroups: ["*"], resources: ["*"], clusterScope: true, namespaces: ["*"] },
            ],
            nonResourceRules: [{ verbs: ["*"], nonResourceURLs: ["*"] }],
          },
        ],
      },
    } as AccessObject,
  ];
}
