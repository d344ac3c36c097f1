/** How much of something is there, as a bar. Without a total the bar is empty. */

export function Progress({
  label,
  part,
}: {
  readonly label: string;
  /** 0 to 1. */
  readonly part: number | undefined;
}) {
  const percent = part === undefined ? undefined : Math.round(Math.min(1, Math.max(0, part)) * 100);
  return (
    <span
      className="progress"
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent}
    >
      <span style={{ width: `${percent ?? 0}%` }} />
    </span>
  );
}
