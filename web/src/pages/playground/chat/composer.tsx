/** Where the reader writes: text, images, Send and Stop. */
import { ImagePlus, SendHorizontal, Square, X } from "lucide-react";
import { type ClipboardEvent, type KeyboardEvent, useRef, useState } from "react";
import { Button, IconButton } from "../../../parts/button.tsx";
import { formatBytes } from "../../../parts/format.ts";
import { texts } from "../../../texts/playground.ts";
import { changeChat, send, stop } from "./store.ts";

/** The gateway takes bodies up to 32 MiB; base64 adds a third. */
const MAX_IMAGE_BYTES = 10 * 1024 * 1024;
const MAX_LINES = 10;

export interface ComposerProps {
  readonly draft: string;
  readonly images: readonly string[];
  readonly isBusy: boolean;
  /** All services that are shown can be asked. */
  readonly canSend: boolean;
  /** Undefined: the model takes images. */
  readonly whyBlind: string | undefined;
}

export function Composer({ draft, images, isBusy, canSend, whyBlind }: ComposerProps) {
  const [problem, setProblem] = useState<string>();
  const isReady = canSend && !isBusy && (draft.trim() !== "" || images.length > 0);
  const submit = (): void => {
    if (isReady) send();
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    submit();
  };
  const add = async (files: readonly File[]): Promise<void> => {
    const pictures = files.filter(({ type }) => type.startsWith("image/"));
    const isTooLarge = pictures.some(({ size }) => size > MAX_IMAGE_BYTES);
    setProblem(isTooLarge ? texts.imageTooLarge(formatBytes(MAX_IMAGE_BYTES)) : undefined);
    if (isTooLarge) return;
    changeChat({ images: [...images, ...(await Promise.all(pictures.map(dataUrl)))] });
  };
  const onPaste = (event: ClipboardEvent): void => {
    const files = [...event.clipboardData.files];
    if (whyBlind !== undefined || files.length === 0) return;
    event.preventDefault();
    void add(files);
  };
  return (
    <div className="composer">
      {images.length > 0 && <Images images={images} />}
      <textarea
        aria-label={texts.input}
        placeholder={texts.placeholder}
        rows={Math.min(MAX_LINES, Math.max(2, draft.split("\n").length))}
        value={draft}
        dir="auto"
        onChange={({ target }) => changeChat({ draft: target.value })}
        onKeyDown={onKey}
        onPaste={onPaste}
      />
      <div className="spread">
        {whyBlind === undefined ? (
          <AttachButton onAdd={(files) => void add(files)} />
        ) : (
          <span className="muted small">{whyBlind}</span>
        )}
        {isBusy ? (
          <Button icon={<Square size={14} aria-hidden />} onClick={() => stop()}>
            {texts.stop}
          </Button>
        ) : (
          <Button
            look="primary"
            icon={<SendHorizontal size={14} aria-hidden />}
            disabled={!isReady}
            onClick={submit}
          >
            {texts.send}
          </Button>
        )}
      </div>
      {problem !== undefined && <p className="field-error">{problem}</p>}
    </div>
  );
}

function Images({ images }: { readonly images: readonly string[] }) {
  return (
    <ul className="row">
      {images.map((url, index) => (
        <li key={url} className="composer-image">
          <img src={url} alt="" />
          <IconButton
            label={texts.removeImage}
            onClick={() => changeChat({ images: images.toSpliced(index, 1) })}
          >
            <X size={14} aria-hidden />
          </IconButton>
        </li>
      ))}
    </ul>
  );
}

function AttachButton({ onAdd }: { readonly onAdd: (files: readonly File[]) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={input}
        type="file"
        accept="image/*"
        multiple
        hidden
        onChange={({ target }) => {
          onAdd([...(target.files ?? [])]);
          target.value = "";
        }}
      />
      <Button look="quiet" icon={<ImagePlus size={16} aria-hidden />} onClick={() => input.current?.click()}>
        {texts.attach}
      </Button>
    </>
  );
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
