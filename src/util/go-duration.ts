/** Durations of hours, minutes and seconds as Go writes them, such as 90s, 10m or 1h30m. */

export const GO_DURATION = /^(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?$/;

/** Undefined if the text is no duration. */
export function goDurationSeconds(text: string): number | undefined {
  const [match, hours = "0", minutes = "0", seconds = "0"] = GO_DURATION.exec(text) ?? [];
  return match ? Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds) : undefined;
}
