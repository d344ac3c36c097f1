/** Ties a verb's life to whoever holds the other end of its standard input. */

/** Calls `end` once when standard input ends or breaks, which happens also when its holder is killed. */
export function whenStdinEnds(end: () => void): void {
  let isOver = false;
  const finish = () => {
    if (isOver) return;
    isOver = true;
    end();
  };
  process.stdin.once("end", finish);
  process.stdin.once("close", finish);
  process.stdin.once("error", finish);
  process.stdin.resume();
}
