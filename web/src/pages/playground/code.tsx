/** Code to copy: of an answer, and of the request itself. */
import { useState } from "react";
import { useSession } from "../../api/session.ts";
import { CopyButton } from "../../parts/copy.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Segments } from "../../parts/segments.tsx";
import { texts } from "../../texts/playground.ts";
import { type SnippetRequest, snippet } from "./request.ts";

const LANGUAGES = [
  { id: "curl", label: "curl" },
  { id: "python", label: "Python" },
] as const;

export function CodeDialog({
  request,
  onClose,
}: {
  readonly request: Omit<SnippetRequest, "gatewayUrl">;
  readonly onClose: () => void;
}) {
  const [language, setLanguage] = useState<(typeof LANGUAGES)[number]>(LANGUAGES[0]);
  const gatewayUrl = useSession()?.gatewayUrl ?? "";
  return (
    <Dialog title={texts.code.title} description={texts.code.why} isOpen onClose={onClose} size="large">
      <div className="row">
        <Segments
          label={texts.code.title}
          value={language.id}
          options={LANGUAGES}
          onChange={(id) => setLanguage(LANGUAGES.find((one) => one.id === id) ?? LANGUAGES[0])}
        />
      </div>
      <CodeBlock language={language.label} text={snippet(language.id, { ...request, gatewayUrl })} />
    </Dialog>
  );
}

export function CodeBlock({ language, text }: { readonly language: string; readonly text: string }) {
  return (
    <figure className="panel code">
      <figcaption className="spread">
        <span className="muted small">{language === "" ? texts.code.plain : language}</span>
        <CopyButton value={text} label={texts.code.copy} />
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a block that scrolls is reached by keyboard */}
      <pre tabIndex={0}>
        <code dir="ltr">{text}</code>
      </pre>
    </figure>
  );
}
