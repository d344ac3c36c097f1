/** The request as code. */
import { useState } from "react";
import { useSession } from "../../../api/session.ts";
import { Dialog } from "../../../parts/dialog.tsx";
import { Segments } from "../../../parts/segments.tsx";
import { texts } from "../../../texts/playground.ts";
import { CodeBlock } from "../markdown/markdown.tsx";
import { type SnippetLanguage, type SnippetRequest, snippet } from "./snippets.ts";

const LANGUAGES: readonly SnippetLanguage[] = ["curl", "python", "javascript"];

export function CodeDialog({
  request,
  onClose,
}: {
  readonly request: Omit<SnippetRequest, "gatewayUrl">;
  readonly onClose: () => void;
}) {
  const [language, setLanguage] = useState<SnippetLanguage>("curl");
  const gatewayUrl = useSession()?.gatewayUrl ?? "";
  return (
    <Dialog title={texts.code.title} description={texts.code.why} isOpen onClose={onClose} size="large">
      <div className="row">
        <Segments
          label={texts.code.title}
          value={language}
          options={LANGUAGES.map((id) => ({ id, label: texts.code.languages[id] }))}
          onChange={(id) => setLanguage(id as SnippetLanguage)}
        />
      </div>
      <CodeBlock
        language={texts.code.languages[language]}
        text={snippet(language, { ...request, gatewayUrl })}
      />
    </Dialog>
  );
}
