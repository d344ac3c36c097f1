/** Words for command lines that a person copies into a shell. */

/** Quoted where the shell would read it otherwise; the rest stays as it is, because it reads better. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
