/** The shim: a short POSIX sh script that outlives its supervisor, starts one program and records its exit status. */

/**
 * read_start PID: sets `start`, and prints nothing about a process that has already exited: its log ends with its own words.
 * publish FILE TEXT: writes the file into `dir`, by rename.
 */
export const SHIM_FUNCTIONS = `read_start() {
  if { IFS= read -r stat <"/proc/$1/stat"; } 2>/dev/null; then
    read -r boot </proc/sys/kernel/random/boot_id
    set -- \${stat##*) }
    shift 19
    start=$boot:$1
  else
    start=$(LC_ALL=C TZ=UTC0 command -p ps -o lstart= -p "$1" 8>&- 9>&-)
  fi
}
publish() {
  printf '%s\\n' "$2" >"$dir/$1.tmp" && command -p mv -f "$dir/$1.tmp" "$dir/$1" 8>&- 9>&-
}`;

/**
 * Called as `sh shim DIR PROGRAM ARGS…` in a new session, with fd 8 = write end of FIFO `main`, fd 9 = write end of FIFO
 * `alive`, stdin = /dev/null and output = the log.
 * - `session` is written before the process starts: without it no process was ever started.
 * - Signals are ignored only after the start, because the process would inherit that.
 * - The byte on fd 8 notifies a listening agent that `pid` exists; a missing listener is not an error.
 * - A process whose pid cannot be written (disk full) could not be stopped safely, so it is killed immediately.
 */
export const SHIM_SCRIPT = `# Metalbridge: keeps one process. Its pid is in ./pid, its exit status, after it exits, in ./exit.
dir=$1
shift
${SHIM_FUNCTIONS}
read_start $$
printf '%s %s\\n' "$$" "$start" >"$dir/session" || exit 1
"$@" 8>&- &
pid=$!
trap '' HUP INT QUIT TERM PIPE
read_start "$pid"
publish pid "$pid $start" || kill -KILL "$pid"
printf . 2>/dev/null >&8
exec 9>&-
wait "$pid"
publish exit $?
`;
