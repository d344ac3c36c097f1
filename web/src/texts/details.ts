/** Texts of what every object's page has: conditions, Events, YAML. */
export const detailsText = {
  type: "Type",
  status: "Status",
  reason: "Reason",
  message: "Message",
  since: "Since",
  seen: "Seen",
  times: (count: number) => `${count}×`,
  noConditions: "No conditions have been reported yet.",
  noEvents: "No Events in the last hour. Kubernetes keeps Events for one hour.",
  copyYaml: "Copy the YAML",
} as const;
