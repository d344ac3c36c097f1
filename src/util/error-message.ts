/** The text of whatever was thrown, for a message that adds context. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
