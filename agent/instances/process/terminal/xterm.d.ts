/** The serializer's types name the browser's terminal; the headless one has the same interface. */
declare module "@xterm/xterm" {
  export * from "@xterm/headless";
}
