/** The downloads of a model that run, with their progress. */
import type { DownloadRow } from "../../../../src/console/rows.ts";
import { formatBytes, formatDuration, formatPercent, formatSpeed } from "../../parts/format.ts";
import { Section } from "../../parts/page.tsx";
import { Progress } from "../../parts/progress.tsx";
import { State } from "../../parts/state.tsx";

export function Downloads({ downloads }: { readonly downloads: readonly DownloadRow[] }) {
  if (downloads.length === 0) return null;
  return (
    <Section title="Downloads">
      <ul className="cards">
        {downloads.map((download) => (
          <li key={download.place} className="card stack gap-8 card-low">
            <Download download={download} />
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Download({ download }: { readonly download: DownloadRow }) {
  const { place, phase, bytes, totalBytes, message } = download;
  const part = totalBytes === undefined || totalBytes === 0 ? undefined : bytes / totalBytes;
  const isFailed = phase === "Failed";
  const word = phase === "Downloading" && part !== undefined ? `${phase} ${formatPercent(part)}` : phase;
  return (
    <>
      <div className="spread">
        <h3 className="truncate">{place}</h3>
        <State state={{ word, level: isFailed ? "bad" : phase === "Downloading" ? "busy" : "idle" }} />
      </div>
      <Progress label={place} part={part} />
      <div className="spread small muted number">
        <span>{`${formatBytes(bytes)} of ${formatBytes(totalBytes)}`}</span>
        <span>{paceOf(download)}</span>
      </div>
      {message !== undefined && message !== "" && <p className="small prose">{message}</p>}
    </>
  );
}

function paceOf({ bytes, totalBytes, bytesPerSecond = 0 }: DownloadRow): string {
  if (bytesPerSecond <= 0) return "";
  const speed = formatSpeed(bytesPerSecond);
  if (totalBytes === undefined) return speed;
  return `${speed}, ${formatDuration(((totalBytes - bytes) / bytesPerSecond) * 1_000)} left`;
}
