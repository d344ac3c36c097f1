/** The few lines of shell between us and a program, so that the program never outlives us, not even a SIGKILL of us. */

/**
 * Started as `sh -c SCRIPT sh <graceMs/200> program args…` with descriptor 3 held open by the parent alone.
 * A line on 3 is a signal for the program; its end means the parent is gone: TERM, grace, KILL.
 * The program gets no copy of 3, and its exit status becomes the shell's own.
 */
export const WATCHDOG = `
steps=$1
shift
"$@" 3<&- &
child=$!
(
  exec <&3 3<&-
  while read -r signal; do kill -s "$signal" "$child" 2>/dev/null; done
  kill -s TERM "$child" 2>/dev/null || exit 0
  while [ "$steps" -gt 0 ] && kill -s 0 "$child" 2>/dev/null; do sleep 0.2; steps=$((steps - 1)); done
  kill -s KILL "$child" 2>/dev/null
) &
reader=$!
exec 3<&-
wait "$child"
status=$?
kill -s KILL "$reader" 2>/dev/null
exit "$status"
`;

const STEP_MS = 200;

/** Pure: argv for /bin/sh. */
export function watchdogArgv(program: string, args: readonly string[], graceMs: number): readonly string[] {
  const steps = Math.max(1, Math.ceil(graceMs / STEP_MS));
  return ["-c", WATCHDOG, "sh", String(steps), program, ...args];
}
