/** The downloads of a model that run, with their progress. */
import type { DownloadRow } from "../../../../src/console/rows.ts";
import { formatDuration } from "../../parts/format.ts";
import { Section } from "../../parts/page.tsx";
import { Progress } from "../../parts/progress.tsx";
import { State } from "../../parts/state.tsx";
import { downloadText, downloadWord, secondsLeft, shareOf } from "../../../../src/verdicts/download.ts";

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
  const { place, phase, message } = download;
  const seconds = secondsLeft(download);
  const isFailed = phase === "Failed";
  const word = phase === "Downloading" ? downloadWord(phase, [download]) : phase;
  return (
    <>
      <div className="spread">
        <h3 className="truncate">{place}</h3>
        <State state={{ word, level: isFailed ? "bad" : phase === "Downloading" ? "busy" : "idle" }} />
      </div>
      <Progress label={place} part={shareOf(download)} />
      <div className="spread small muted number">
        <span>{downloadText(download)}</span>
        <span>{seconds === undefined ? "" : `${formatDuration(seconds * 1_000)} left`}</span>
      </div>
      {message !== undefined && message !== "" && <p className="small prose">{message}</p>}
    </>
  );
}
