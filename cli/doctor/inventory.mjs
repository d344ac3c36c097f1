import { errorMessage } from "../../src/util/error-message.ts";

/**
 * Asks systeminformation for the machine's inventory once, prints it as JSON and exits. A process of its own: the package
 * runs dozens of programs, some of them while it blocks this thread, and no long-lived process shall carry it.
 */
try {
  const { default: machine } = await import("systeminformation");
  const answer = await machine.get({
    system: "manufacturer, model",
    cpu: "manufacturer, brand, physicalCores",
    osInfo: "distro, release, arch",
    graphics: "controllers",
    diskLayout: "name, type, size, interfaceType",
    networkInterfaces: "iface, type, speed, operstate",
  });
  process.stdout.write(JSON.stringify(answer));
} catch (error) {
  process.stderr.write(errorMessage(error));
  process.exitCode = 1;
}
