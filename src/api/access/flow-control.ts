/** How much of the API server the hosts' accounts may use at once: whatever one of them does, others are served. */
import { NAMESPACE_HOSTS } from "../group.ts";
import type { AccessObject } from "./policy.ts";

const FLOW_CONTROL = "flowcontrol.apiserver.k8s.io/v1";
const NAME = "metalbridge-hosts";
/** Before the API server's own `service-accounts` (9000), after those of the system. */
const PRECEDENCE = 8_500;

/** A level of its own that borrows nothing from others, with a queue for each host. */
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
