/** Names and texts that tempt a page to break: as long as allowed, with markup, control and bidirectional characters. */

/** Rendered as markup it would set this property of the window. */
export const INJECTED = "metalbridgeInjected";

export const MARKUP = `<img src=x onerror="window.${INJECTED}=1"><script>window.${INJECTED}=1</script><b>bold</b>`;
/** Text after it reads from right to left until the line ends. */
export const BIDIRECTIONAL =
  "file \u202etxt.exe\u202c \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u2066isolated";
export const UNICODE = "Zürich 東京 🚀 e\u0301 ﷽ a\u200bb";
export const CONTROL = "bell\u0007 escape\u001b[31m null-like\u0001 tab\tline\nbreak";
export const AWKWARD = [MARKUP, BIDIRECTIONAL, UNICODE, CONTROL] as const;

/** Exactly as long as asked, and valid as the name of an object. */
export function longName(start: string, length: number): string {
  return `${start}-${"very-long-name-of-a-thing-".repeat(3)}`.slice(0, length - 1).concat("x");
}
