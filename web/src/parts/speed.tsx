/** Estimated tokens per second with their interval. */
import type { ModelFit } from "../api/density.ts";
import { formatRate } from "./format.ts";

export function EstimatedSpeed({
  fit: { estimated_tps: value, estimated_tps_low: low, estimated_tps_high: high },
}: {
  readonly fit: ModelFit;
}) {
  return (
    <>
      {formatRate(value)}{" "}
      <span className="muted small">
        {formatRate(low)}–{formatRate(high)}
      </span>
    </>
  );
}
