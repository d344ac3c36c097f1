/** The addresses of the console that need no object. */
export const PAGES = [
  ...["/", "/services", "/models", "/hosts", "/fits", "/topology", "/playground"],
  ...["/gateway", "/usage", "/settings"],
];
