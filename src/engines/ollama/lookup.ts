/** Transient responses of Ollama, which say nothing about the model or the request. */

/** Attempts before such a response is believed. */
export const LOOKUP_TRIES = 4;

/**
 * Ollama reads the manifests of all its models to find the requested one, and fails if any of them is deleted at that moment: by
 * the agent after a rollout, or by a user. Ollama answers before it has begun to work. Found with 0.9.6.
 */
export function isLookupFailure(status: number, body: string): boolean {
  if (status === 400) return body.includes('"model is required"');
  if (status === 404) return /model '[^']+' not found/.test(body);
  return status === 500 && /"stat [^"]+: no such file or directory"/.test(body);
}
