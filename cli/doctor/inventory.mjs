import { errorMessage } from "../../src/util/error-message.ts";

/**
 * Reads the machine's inventory with systeminformation once, prints it as JSON and exits. It runs in a separate process
 * because the package runs dozens of programs and blocks the thread for some of them.
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
