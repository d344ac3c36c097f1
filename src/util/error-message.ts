/** The message of a thrown value, for a message that adds context. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
