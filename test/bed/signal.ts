/** Signals a process. False where it has exited already. */
export function send(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

export function isAlive(pid: number): boolean {
  return send(pid, 0);
}
