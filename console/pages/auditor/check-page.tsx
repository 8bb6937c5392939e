/** Files that an auditor has kept, checked in the browser: nothing is uploaded, and no token is needed. */
import { useRef, useState } from 'preact/hooks';
import { Failure } from '../../parts/failure.js';
import { TrustForm } from '../../parts/trust-form.js';
import { type CheckedFile, checkFile } from '../../check-file.js';
import { explained, trustNow } from '../../trust.js';
import { CheckedResult } from './checked-result.js';

interface Checking {
  readonly name: string;
  readonly events: number;
  readonly total: number | undefined;
}

/** The page is drawn at least so often while a long file is checked, in milliseconds. */
const DRAW_EVERY_MS = 100;

const CheckPage = () => {
  const [checking, setChecking] = useState<Checking>();
  const [checked, setChecked] = useState<{ readonly name: string; readonly file: CheckedFile }>();
  const [error, setError] = useState<unknown>();
  const [older, setOlder] = useState<File>();
  const running = useRef<AbortController>(undefined);
  const check = async (file: File): Promise<void> => {
    running.current?.abort();
    const run = new AbortController();
    running.current = run;
    setError(undefined);
    setChecked(undefined);
    setChecking({ name: file.name, events: 0, total: undefined });
    let drawn = performance.now();
    const onProgress = async (events: number, total: number | undefined): Promise<void> => {
      run.signal.throwIfAborted();
      if (performance.now() - drawn < DRAW_EVERY_MS) return;
      setChecking({ name: file.name, events, total });
      await new Promise((resolve) => setTimeout(resolve)); // a tab in the background draws no frames
      drawn = performance.now();
    };
    try {
      const against = older && new Uint8Array(await older.arrayBuffer());
      const result = await checkFile(file, { ...(await trustNow()), against, onProgress });
      if (!run.signal.aborted) setChecked({ name: file.name, file: result });
    } catch (failure) {
      if (!run.signal.aborted) setError(explained(failure));
    } finally {
      if (running.current === run) setChecking(undefined);
    }
  };
  return (
    <>
      <div class="page-head">
        <h1>Check a file</h1>
      </div>
      <div class="split">
        <div class="stack">
          <DropZone onFile={(file) => void check(file)} />
          <Older file={older} onFile={setOlder} />
          {checking && (
            <Progress
              checking={checking}
              onStop={() => {
                running.current?.abort();
                setChecking(undefined);
              }}
            />
          )}
          {error !== undefined && <Failure error={error} />}
          {checked && <CheckedResult name={checked.name} file={checked.file} />}
        </div>
        <aside aria-label="Keys">
          <TrustForm />
        </aside>
      </div>
    </>
  );
};

const Progress = ({ checking, onStop }: { readonly checking: Checking; readonly onStop: () => void }) => {
  const { name, events, total } = checking;
  return (
    <section class="card" aria-label="Checking" aria-busy="true">
      <p>
        Checking <bdi>{name}</bdi>: <span class="number">{events.toLocaleString()}</span>
        {total !== undefined && ` of ${total.toLocaleString()}`} events
      </p>
      <progress
        aria-label="Checked"
        {...(total !== undefined && { value: events, max: Math.max(total, 1) })}
      />
      <button type="button" onClick={onStop}>
        Stop
      </button>
    </section>
  );
};

/** Takes one file, dropped or chosen. */
const DropZone = ({ onFile }: { readonly onFile: (file: File) => void }) => {
  const [over, setOver] = useState(false);
  return (
    <div
      class={`drop ${over ? 'over' : ''}`}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => {
        setOver(false);
      }}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        const [file] = event.dataTransfer?.files ?? [];
        if (file) onFile(file);
      }}
    >
      <label for="file">Bundle, receipt, proof of a list, or checkpoint</label>
      <input
        id="file"
        type="file"
        onChange={(event) => {
          const { files } = event.currentTarget;
          const [file] = files ?? [];
          if (file) onFile(file);
          event.currentTarget.value = ''; // the same file can be chosen again
        }}
      />
      <p class="hint">
        Or drop it here. It is checked in this browser, and goes nowhere. Files that are packed by gzip are
        unpacked.
      </p>
    </div>
  );
};

/** The older checkpoint that a bundle has to go on from. */
const Older = ({
  file,
  onFile,
}: {
  readonly file: File | undefined;
  readonly onFile: (file: File | undefined) => void;
}) => (
  <details class="card">
    <summary>
      <h2>A bundle goes on from an older checkpoint</h2>
    </summary>
    <div class="field">
      <label for="older">The checkpoint that you have kept</label>
      <input
        id="older"
        type="file"
        onChange={(event) => {
          onFile(event.currentTarget.files?.[0]);
        }}
      />
      <p class="hint">
        {file ? 'Bundles are refused unless they go on from it.' : 'Choose it before the bundle.'}
      </p>
    </div>
  </details>
);

export default CheckPage;
