/** After the last fault of a round everything comes right, in time. */
import { eventsOf } from "../observe/recording.ts";
import { lagMs } from "./derive/spans.ts";
import type { Invariant, Violation } from "./invariant.ts";
import { seconds } from "./truth/claims.ts";

export const CONVERGES_WITHIN_MS = 60_000;

export const convergence: Invariant = {
  name: "convergence",
  promise: "60 s after the last fault everything is as it should be.",
  check: (recording) => {
    let healedAt = 0;
    const violations: Violation[] = [];
    for (const { at, change, reasons, index, allowedMs = 0 } of eventsOf(recording, "round")) {
      if (change === "healed") healedAt = at;
      if (change !== "converged" && change !== "notConverged") continue;
      const allowed = CONVERGES_WITHIN_MS + allowedMs + lagMs(recording, { from: healedAt, to: at });
      if (change === "converged" && at - healedAt <= allowed) continue;
      const verdict =
        change === "converged" ? "came right only then" : `was still not right: ${reasons.join("; ")}`;
      const message = `${seconds(at - healedAt)} s after the last fault of round ${index} the farm ${verdict}`;
      violations.push({ invariant: "convergence", at, message, about: reasons.flatMap(namesIn) });
    }
    return violations;
  },
};

function namesIn(reason: string): readonly string[] {
  return [...reason.matchAll(/(?:replica|service|Host|on) ([\w-]+)/g)].map(([, name]) => name ?? "");
}
