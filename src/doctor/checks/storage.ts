/** Checks of the model store. */
import { formatBytes } from "../../util/bytes.ts";
import { type Check, defineCheck } from "./check.ts";
import { quoted } from "./machine.ts";

const SLOW = 200e6;
const TEMPORARY = /^(\/private)?(\/tmp|\/var\/tmp|\/var\/folders|\/dev\/shm|\/run)(\/|$)/;

export const storageChecks: readonly Check[] = [
  defineCheck({
    code: "DiskFull",
    title: "disk space",
    severity: "error",
    reason:
      "a download stops before the free space falls below the reserve, and logs and state need space too",
    needs: ["store"],
    judge: ({ store: { folder, freeBytes, reserveBytes } }) => {
      const place = `${formatBytes(freeBytes)} are free for ${folder}`;
      if (freeBytes < reserveBytes)
        return [{ finding: `${place}, less than the reserve of ${formatBytes(reserveBytes)}` }];
      // One small model more.
      if (freeBytes < reserveBytes + 10 * 2 ** 30)
        return [
          { finding: `${place}, of which ${formatBytes(reserveBytes)} are reserved`, severity: "warning" },
        ];
      return [];
    },
  }),
  defineCheck({
    code: "DiskSlow",
    title: "disk speed",
    severity: "warning",
    reason: "a model of 40 GB takes minutes to download and to load",
    needs: ["writeSpeed"],
    judge: ({ writeSpeed: { bytesPerSecond } }) =>
      bytesPerSecond >= SLOW
        ? []
        : [{ finding: `the volume of the model store writes ${Math.round(bytesPerSecond / 1e6)} MB/s` }],
  }),
  defineCheck({
    code: "DiskRotational",
    title: "disk type",
    severity: "note",
    reason: "llama-server maps the weights into memory and reads them in random order",
    needs: ["disks"],
    judge: ({ disks }) =>
      disks
        .filter(({ type }) => type === "HD")
        .map(({ name }) => ({ finding: `${name} is a rotating disk` })),
  }),
  defineCheck({
    code: "ModelsBackedUp",
    title: "Time Machine",
    severity: "warning",
    platforms: ["darwin"],
    isFixable: true,
    reason: "weights fill the backup disk, although they can be downloaded again",
    needs: ["backup"],
    judge: ({ backup: { folder, isExcluded } }) =>
      isExcluded
        ? []
        : [
            {
              finding: `${folder} is part of backups`,
              command: `tmutil addexclusion ${quoted(folder)}`,
              repair: { do: "excludeFromBackup", path: folder },
            },
          ],
  }),
  defineCheck({
    code: "StateDirTemporary",
    title: "place of the state folder",
    severity: "error",
    reason: "models, and the record of what runs, are lost at the next boot",
    needs: ["stateDir"],
    judge: ({ stateDir: { path } }) =>
      TEMPORARY.test(path) ? [{ finding: `${path} is a temporary folder` }] : [],
  }),
];
