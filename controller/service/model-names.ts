/** The condition ModelNamesAccepted: which model names lead to a service, and who has the others. Pure. */
import type { ConditionUpdate } from "../../src/api/conditions.ts";
import { defaultRemedy } from "../../src/api/errors.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { type PublicNames, serviceNamesOf, type TakenName } from "../../src/gateway/public-names.ts";

const TYPE = "ModelNamesAccepted";

/** Empty for a service that has its own name and asks for no other. */
export function modelNamesConditions(
  publicNames: Pick<PublicNames, "namesOf" | "takenFrom">,
  service: InferenceService,
): ConditionUpdate[] {
  const { key, claims } = serviceNamesOf(service);
  const taken = publicNames.takenFrom(key);
  if (taken.length === 0 && !claims.some(({ isRequested }) => isRequested)) return [];
  const used = `gateways offer ${key} as ${publicNames.namesOf(key).join(", ")}`;
  const message = [...taken.map((one) => ownerText(one, key)), used].join("; ");
  if (!taken.some(({ isRequested }) => isRequested))
    return [{ type: TYPE, status: "True", reason: "NamesAccepted", message }];
  const { summary } = defaultRemedy("ModelNameTaken");
  return [
    { type: TYPE, status: "False", reason: "ModelNameTaken", message: `${message}. To do: ${summary}` },
  ];
}

function ownerText({ name, by }: TakenName, key: string): string {
  const why = name === by ? "whose full name it is" : "which is older";
  return `the model name ${name} of ${key} belongs to ${by}, ${why}`;
}
