/** Adding the plants of a file. */
import { useState } from 'preact/hooks';
import { Dialog } from '../../parts/dialog.js';
import { Name } from '../../parts/name.js';
import { saveFile } from '../../parts/save.js';
import { messageOf } from '../../problem.js';
import { type ReadFile, readPlants } from './import-lines.js';
import { ImportRun } from './import-run.js';
import { type PlantList } from './plant-list.js';

/** The longest file that is read, in bytes: a browser holds it several times over. */
const LONGEST_FILE = 64 * 1024 * 1024;

/** Refusals that are shown; all of them can be saved. */
const MOST_SHOWN = 200;

/** A file's text. Throws an Error that says what is wrong. */
const textOf = async (file: Blob): Promise<string> => {
  if (file.size > LONGEST_FILE)
    throw new Error('This file is larger than 64 MiB. Split it, or use curl (docs/api.md).');
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error('This file is not UTF-8 text. Save it as UTF-8 (in a spreadsheet: CSV UTF-8).');
  }
};

export const ImportDialog = ({
  list,
  onClose,
}: {
  readonly list: PlantList;
  readonly onClose: () => void;
}) => {
  const [file, setFile] = useState<ReadFile>();
  const [run, setRun] = useState<ImportRun>();
  const [fault, setFault] = useState<string>();
  const take = async (text: string | Blob): Promise<void> => {
    try {
      setFile(readPlants(typeof text === 'string' ? text : await textOf(text)));
      setFault(undefined);
    } catch (error) {
      setFile(undefined);
      setFault(messageOf(error));
    }
  };
  const start = (): void => {
    if (!file) return;
    const next = new ImportRun(file);
    setRun(next);
    void next.start().then(() => list.load());
  };
  const isBusy = run?.state.value === 'running';
  return (
    <Dialog title="Import plants" wide {...(!isBusy && { onClose })}>
      {run ? (
        <Progress run={run} list={list} onClose={onClose} />
      ) : (
        <>
          <Choose onTake={take} />
          {fault !== undefined && (
            <p class="fault" role="alert">
              {fault}
            </p>
          )}
          {file && <Preview file={file} />}
          <div class="actions">
            <button type="button" class="primary" disabled={!file || file.lines.length === 0} onClick={start}>
              Import
            </button>
            <button type="button" onClick={onClose}>
              Cancel
            </button>
          </div>
        </>
      )}
    </Dialog>
  );
};

const Choose = ({ onTake }: { readonly onTake: (text: string | Blob) => Promise<void> }) => {
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    const [dropped] = event.dataTransfer?.files ?? [];
    if (dropped) void onTake(dropped);
  };
  return (
    <div
      class="import-drop"
      onDragOver={(event) => {
        event.preventDefault();
      }}
      onDrop={drop}
    >
      <div class="field">
        <label for="import-file">A file: CSV, or NDJSON (one JSON object in each line)</label>
        <input
          id="import-file"
          type="file"
          accept=".csv,.ndjson,.jsonl,.json,.txt,text/csv,application/x-ndjson"
          onChange={(event) => {
            const [chosen] = event.currentTarget.files ?? [];
            if (chosen) void onTake(chosen);
          }}
        />
        <p class="hint">
          It may be dropped here as well. A CSV file names its columns in the first line:{' '}
          <code>name,tag,id</code>.
        </p>
      </div>
      <div class="field">
        <label for="import-text">Or paste its lines</label>
        <textarea
          id="import-text"
          class="mono"
          rows={4}
          spellcheck={false}
          dir="auto"
          onInput={(event) => {
            if (event.currentTarget.value.trim() !== '') void onTake(event.currentTarget.value);
          }}
        />
      </div>
    </div>
  );
};

const counted = (count: number, one: string, more = `${one}s`): string =>
  `${count.toLocaleString()} ${count === 1 ? one : more}`;

const Preview = ({ file: { format, lines, faults } }: { readonly file: ReadFile }) => (
  <div role="status">
    <p>
      <strong>{counted(lines.length, 'plant')}</strong> in {format}.
      {faults.length > 0 && ` ${counted(faults.length, 'line')} cannot be read.`} Plants that you have already
      are left as they are, so that a file may be imported again.
    </p>
    <ul class="preview mono">
      {lines.slice(0, 3).map(({ line, json }) => (
        <li key={line}>
          <Name text={json.length > 300 ? `${json.slice(0, 300)}…` : json} />
        </li>
      ))}
      {lines.length > 3 && <li class="faint">and {counted(lines.length - 3, 'more', 'more')}</li>}
    </ul>
  </div>
);

const HEADINGS = {
  running: 'Importing…',
  paused: 'The import waits',
  stopped: 'The import was stopped',
  done: 'The import is done',
} as const;

const Progress = ({
  run,
  list,
  onClose,
}: {
  readonly run: ImportRun;
  readonly list: PlantList;
  readonly onClose: () => void;
}) => {
  const state = run.state.value;
  return (
    <>
      <p role="status">
        <strong>{HEADINGS[state]}</strong> {run.reason.value}
      </p>
      <progress aria-label="Lines that are done" max={Math.max(run.total, 1)} value={run.settled.value} />
      <dl class="counts number">
        <Count label="added" count={run.created.value} />
        <Count label="there already" count={run.exists.value} />
        <Count label="refused" count={run.refused.value.length} />
        <Count label="left" count={run.total - run.settled.value} />
      </dl>
      <Refusals run={run} />
      <div class="actions">
        {state === 'running' && (
          <button
            type="button"
            onClick={() => {
              run.stop();
            }}
          >
            Stop
          </button>
        )}
        {(state === 'paused' || state === 'stopped') && (
          <button type="button" class="primary" onClick={() => void run.start().then(() => list.load())}>
            Go on
          </button>
        )}
        {state !== 'running' && (
          <button type="button" class={state === 'done' ? 'primary' : ''} onClick={onClose}>
            Close
          </button>
        )}
      </div>
    </>
  );
};

const Count = ({ label, count }: { readonly label: string; readonly count: number }) => (
  <div>
    <dt>{label}</dt>
    <dd>{count.toLocaleString()}</dd>
  </div>
);

const Refusals = ({ run }: { readonly run: ImportRun }) => {
  const refused = run.refused.value;
  if (refused.length === 0) return null;
  const save = (): void => {
    const { head, format } = run.file;
    const lines = refused.filter(({ source }) => source !== '').map(({ source }) => `${source}\n`);
    saveFile(`refused.${format.toLowerCase()}`, head + lines.join(''), 'text/plain');
  };
  return (
    <section aria-label="Refused lines" class="refusals">
      <ul tabIndex={0} aria-label="Refused lines">
        {refused.slice(0, MOST_SHOWN).map(({ line, detail, source }) => (
          <li key={line}>
            <strong>Line {line}</strong>: <bdi>{detail}</bdi>
            {source !== '' && (
              <div class="mono small faint">
                <Name text={source.length > 200 ? `${source.slice(0, 200)}…` : source} />
              </div>
            )}
          </li>
        ))}
      </ul>
      {refused.length > MOST_SHOWN && (
        <p class="hint">{counted(refused.length - MOST_SHOWN, 'more', 'more')}.</p>
      )}
      <button type="button" onClick={save}>
        Save the refused lines
      </button>
    </section>
  );
};
