/** The addresses of the console that need no object. */
export const PAGES = [
  ...["/", "/services", "/models", "/hosts", "/density", "/topology", "/simulate", "/playground"],
  ...["/gateway", "/usage", "/settings"],
];
